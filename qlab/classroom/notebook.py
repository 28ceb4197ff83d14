"""The ties to IPython: ``%%worker file.py`` cells, what follows an interrupt, and showing things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qlab.classroom.processes import LabError
from qlab.classroom.texts import text

_end_workers: Callable[[], None] | None = None
_write: Callable[[str, str], Path] | None = None
_registered: set[int] = set()


def attach(end_workers: Callable[[], None], write: Callable[[str, str], Path]) -> None:
    """Use these from now on.  Nothing happens outside IPython."""
    global _end_workers, _write
    _end_workers, _write = end_workers, write
    shell = _shell()
    if shell is not None and id(shell) not in _registered:
        _registered.add(id(shell))
        shell.register_magic_function(_worker_cell, "cell", "worker")
        shell.events.register("post_run_cell", _after_cell)


def detach() -> None:
    """The lab is closed."""
    global _end_workers, _write
    _end_workers = _write = None


def _shell() -> Any:
    import sys

    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def show(widget: object) -> None:
    """Show a widget below the cell."""
    _display(widget)


def show_picture(svg: str, words: str, markdown: str) -> None:
    """Show a picture and below it its text equivalent, formatted: no picture comes without its text.

    ``words`` stand in where pictures are not shown, as on a page not yet trusted.
    """
    _display({"image/svg+xml": svg, "text/plain": words}, raw=True)
    _display({"text/markdown": markdown, "text/plain": markdown}, raw=True)


def _display(thing: object, *, raw: bool = False) -> None:
    from IPython import display

    tools: Any = display
    tools.display(thing, raw=raw)


def clear() -> None:
    """Take the cell's output away as soon as there is another one."""
    from IPython import display

    tools: Any = display
    tools.clear_output(wait=True)


def _worker_cell(line: str, cell: str) -> None:
    """Write the cell to the lab's folder under the name given: ``%%worker charge.py``."""
    if _write is None:
        raise LabError(text("lab.no_magic"))
    path = _write(line.strip(), cell)
    print({"file": path.name, "lines": len(cell.strip().splitlines())})


def _after_cell(result: Any) -> None:
    """An interrupted cell must not leave workers behind that nobody will stop."""
    error = getattr(result, "error_in_exec", None)
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError) and _end_workers:
        _end_workers()
