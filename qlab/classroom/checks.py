"""Our own look at stored notebooks: what nbval does not see.

    python -m qlab.classroom.checks [notebook ...]     # none: notebooks/, solutions/, exercises/

nbval never compares a cell that was not executed, so a cleared notebook passes it; and it cannot
know that a lesson forgot its quiz. Each problem is one line: notebook, cell, what to do.
"""

from __future__ import annotations

import argparse
import ast
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat

from . import cells
from .notebooks import KEPT_CELL_METADATA, KEPT_METADATA, KERNEL, WIDGET_VIEW
from .texts import load, names, text

LONGEST_CELL = 14
FOLDERS = ("notebooks", "solutions", "exercises")
WITHOUT_BEATS = ("00", "17")
MACHINE = re.compile(
    r"(?<![\w.])/(?:home|root|tmp|Users|var/folders|private|opt|mnt|work|workspace)/[\w.\-]+|[A-Z]:\\\\?\w|site-packages"
)
OLD_SPELLING = re.compile(r"\b\w*(?:[óòỏõọ]a|[úùủũụ]y)\b", re.IGNORECASE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)|href=[\"']([^\"'#]+)")

Rule = Callable[[Any, Path], Iterator[str]]


def check(path: Path) -> list[str]:
    """Return the problems of one stored notebook, a line each."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        return [f"{path}: not a readable notebook ({type(error).__name__}); restore it from git"]
    rules: list[Rule] = [executed, no_errors, no_machine, clean_metadata, known_ids, links, spelling]
    if path.parent.name == "notebooks":
        rules += [short_cells, no_classes]
        if not path.name.startswith(WITHOUT_BEATS):
            rules.append(beats)
    return [f"{path}: {problem}" for rule in rules for problem in rule(notebook, path)]


def executed(notebook: Any, path: Path) -> Iterator[str]:
    """Every code cell was run; in lessons and solutions in order, from a fresh kernel."""
    counts = []
    for name, cell in _code(notebook):
        counts.append(cell.execution_count)
        if cell.execution_count is None:
            yield f"{name} is stored without having been run: run python -m qlab.classroom.notebooks"
    in_order = counts == list(range(1, len(counts) + 1))
    if None not in counts and not in_order and path.parent.name != "exercises":
        yield "the cells were not run once each from top to bottom: run python -m qlab.classroom.notebooks"


def no_errors(notebook: Any, path: Path) -> Iterator[str]:
    """No cell ends in an error unless it says so with the tag raises-exception."""
    for name, cell in _code(notebook):
        meant = "raises-exception" in cell.metadata.get("tags", [])
        if not meant and any(output.output_type == "error" for output in cell.outputs):
            yield f"{name} is stored with an error: put it right, or tag it raises-exception"


def no_machine(notebook: Any, path: Path) -> Iterator[str]:
    """No output names a folder or the host of the machine it was made on."""
    host = socket.gethostname()
    for name, cell in _code(notebook):
        for output in cells.output_texts(cell):
            found = MACHINE.search(output)
            if found:
                yield f"{name} shows a path of this machine ({found.group()}): print less"
            elif len(host) > 3 and host != "localhost" and host in output:
                yield f"{name} shows the name of this machine: print less"


def clean_metadata(notebook: Any, path: Path) -> Iterator[str]:
    """No traces of one kernel, one run or one editor."""
    extra = set(notebook.metadata) - {"kernelspec", "language_info", *KEPT_METADATA}
    if extra or dict(notebook.metadata.get("kernelspec", {})) != KERNEL:
        yield "the notebook's metadata hold more than its kernel: run python -m qlab.classroom.notebooks"
    for name, cell in _named(notebook):
        others = sorted(set(cell.metadata) - set(KEPT_CELL_METADATA))
        if others:
            yield f"{name} has metadata of an editor or a run ({', '.join(others)})"
        if any(WIDGET_VIEW in output.get("data", {}) for output in cell.get("outputs", [])):
            yield f"{name} stores a link to a live widget: run python -m qlab.classroom.notebooks"


def known_ids(notebook: Any, path: Path) -> Iterator[str]:
    """Each prediction, quiz and proof named in code has its text file or its place on the board."""
    known = {"Predict": names("predict"), "Quiz": names("quiz"), "prove": list(load("board")["items"])}
    for name, cell in _code(notebook):
        for function, ids in known.items():
            for used in cells.first_arguments(cell.source, function):
                if used not in ids:
                    yield f"{name}: {function}({used!r}) has no text: add it to qlab/classroom/text"


def links(notebook: Any, path: Path) -> Iterator[str]:
    """Links to files of the course lead somewhere."""
    for name, cell in _named(notebook):
        shown = [cell.source] if cell.cell_type == "markdown" else list(cells.output_texts(cell))
        for target in dict.fromkeys(a or b for one in shown for a, b in LINK.findall(one)):
            if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                yield f"{name} links to {target}, which is not there"


def spelling(notebook: Any, path: Path) -> Iterator[str]:
    """One spelling of Vietnamese tone marks: khoá, hoá, huỷ, tuỳ."""
    for name, cell in _named(notebook):
        if cell.cell_type == "markdown":
            for word in sorted(set(OLD_SPELLING.findall(cell.source))):
                yield f"{name} writes {word!r}: put the tone mark on the last vowel (khoá, hoá, huỷ, tuỳ)"


def short_cells(notebook: Any, path: Path) -> Iterator[str]:
    """A code cell of a lesson fits in one look."""
    for name, cell in _code(notebook):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > LONGEST_CELL:
            yield f"{name} has {len(lines)} lines of code, more than {LONGEST_CELL}: split it or use a helper"


def no_classes(notebook: Any, path: Path) -> Iterator[str]:
    """Lessons use classes, they do not define them."""
    for name, cell in _code(notebook):
        if any(True for _ in cells.nodes(cell.source, ast.ClassDef)):
            yield f"{name} defines a class: move it to qlab/classroom"


def beats(notebook: Any, path: Path) -> Iterator[str]:
    """A lesson has its beats: promise, prediction, asserted run, picture in words too, quiz, one sentence."""
    first = notebook.cells[0] if notebook.cells else None
    promise = first.source if first is not None and first.cell_type == "markdown" else ""
    if not promise.startswith("# ") or not re.search(rf"\d\s*{text('checks.minutes')}", promise):
        yield "the first cell must promise something: a title, what one can do afterwards, how many minutes"
    code = list(enumerate(cell if cell.cell_type == "code" else None for cell in notebook.cells))
    used = [(n, cell) for n, cell in code if cell is not None]
    predicts = [n for n, cell in used if cells.first_arguments(cell.source, "Predict")]
    runs = [n for n, cell in used if cells.asserts(cell.source)]
    quizzes = [n for n, cell in used if cells.first_arguments(cell.source, "Quiz")]
    if not predicts or not any(run > predicts[0] for run in runs):
        yield "there must be a Predict before a run that asserts its result"
    if not quizzes or not any(run < quizzes[-1] for run in runs):
        yield "there must be a Quiz after the run"
    shown = [picture for _, cell in used for picture in cells.pictures(cell) if "Quiz" not in cell.source]
    if not any(_readable(svg, beside) for svg, beside in shown):
        yield "there must be a picture (SVG) of a run with its <title> and <desc>, or its text beside it"
    if not any(text("checks.one_sentence") in cell.source for cell in notebook.cells[-4:]):
        yield f"it must end with one sentence: {text('checks.one_sentence')!r} in one of the last four cells"


def _readable(svg: str, beside: str) -> bool:
    described = re.search(r"<title[^>]*>[^<]+</title>", svg) and re.search(r"<desc[^>]*>[^<]+</desc>", svg)
    return bool(described) or (len(beside) > 40 and not beside.startswith("<"))


def _named(notebook: Any) -> Iterator[tuple[str, Any]]:
    for number, cell in enumerate(notebook.cells, 1):
        yield f"cell {number} ({cell.get('id', 'no id')})", cell


def _code(notebook: Any) -> Iterator[tuple[str, Any]]:
    return (
        (name, cell) for name, cell in _named(notebook) if cell.cell_type == "code" and cell.source.strip()
    )


def main(arguments: list[str] | None = None) -> int:
    """Check the notebooks named, else all; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m qlab.classroom.checks")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all of the course)")
    paths = parser.parse_args(arguments).paths or sorted(
        path for folder in FOLDERS for path in Path(folder).glob("*.ipynb")
    )
    if not paths:
        print("no notebooks here: run this in the folder of the course", file=sys.stderr)
        return 1
    problems = [problem for path in paths for problem in check(path)]
    print("\n".join(problems) if problems else f"{len(paths)} notebooks checked, nothing wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
