"""Run lessons and solutions from top to bottom and store what they printed.

    python -m qlab.classroom.notebooks [notebook ...]      # none: all of notebooks/ and solutions/

What is stored holds the lesson and nothing of the machine that ran it: no kernel name of its own,
no widget state, no times, and the cells keep their ids. A notebook that fails is left as it was.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

CELL_TIMEOUT = 60
KEPT_METADATA = ("qlab",)
KEPT_CELL_METADATA = ("tags", "nbgrader", "qlab")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


class NotebookFailedError(RuntimeError):
    """A cell raised, ran too long, or took its kernel down; the message names the notebook and the cell."""


def run(path: Path, timeout: int = CELL_TIMEOUT) -> None:
    """Execute the notebook at ``path`` in its own folder with no progress of its own, and store it.

    ``timeout`` is seconds for each cell. Raises NotebookFailedError; the file is then unchanged.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],  # a kernel on this machine need not warn about TCP
        resources={"metadata": {"path": str(path.parent)}},
    )
    with _fresh_home():
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise NotebookFailedError(f"{path}: {_where(notebook)}: {_short(error)}") from error
    _store(path, normalised(notebook))


def normalised(notebook: Any) -> Any:
    """Return the notebook without traces of the machine and of the run: see the module's text."""
    own = {key: notebook.metadata[key] for key in KEPT_METADATA if key in notebook.metadata}
    kernel = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook.metadata = nbformat.from_dict(kernel | own)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    for number, cell in enumerate(notebook.cells):
        kept = {key: cell.metadata[key] for key in KEPT_CELL_METADATA if key in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
        if not cell.get("id") or cell.id in seen:
            cell.id = f"cell-{number}"
        seen.add(cell.id)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_clean, cell.outputs) if output]
    return notebook


def _clean(output: Any) -> Any:
    """Drop the link to a live widget; an output that was nothing else goes altogether."""
    if "data" not in output:
        return output
    output.data.pop(WIDGET_VIEW, None)
    output.metadata = nbformat.from_dict({})
    return output if output.data else None


@contextmanager
def _fresh_home() -> Iterator[None]:
    """Run as a learner who has done nothing yet, so that stored outputs show an empty board."""
    before = os.environ.get("QLAB_HOME")
    with tempfile.TemporaryDirectory(prefix="qlab-home-") as folder:
        os.environ["QLAB_HOME"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["QLAB_HOME"]
            else:
                os.environ["QLAB_HOME"] = before


def _store(path: Path, notebook: Any) -> None:
    nbformat.validate(notebook)
    side = path.with_name(f".{path.name}.part")
    nbformat.write(notebook, side)
    side.replace(path)


def _where(notebook: Any) -> str:
    """Name the last cell that began: the one that failed."""
    number = max((n for n, c in enumerate(notebook.cells) if c.get("execution_count")), default=0)
    failed = [n for n, c in enumerate(notebook.cells) if any(_is_error(o) for o in c.get("outputs", []))]
    number = failed[0] if failed else number
    return f"cell {number + 1} ({notebook.cells[number].id})"


def _is_error(output: Any) -> bool:
    return bool(output.output_type == "error")


def _short(error: Exception) -> str:
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def default_paths() -> list[Path]:
    """All lessons and solutions of the course in the working folder."""
    return sorted(path for folder in ("notebooks", "solutions") for path in Path(folder).glob("*.ipynb"))


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks named, else all; 0 when each one ran, 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m qlab.classroom.notebooks", description=run.__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all lessons and solutions)")
    parser.add_argument("--timeout", type=int, default=CELL_TIMEOUT, help="seconds for each cell")
    options = parser.parse_args(arguments)
    paths = options.paths or default_paths()
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        print(f"no such notebook: {', '.join(missing) or 'none found here'}", file=sys.stderr)
        return 1
    failed = 0
    for path in paths:
        try:
            run(path, options.timeout)
            print(f"{path}: stored")
        except NotebookFailedError as error:
            failed += 1
            print(error, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
