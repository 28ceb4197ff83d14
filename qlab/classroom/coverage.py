"""Where each statement of the two source texts is shown: docs/coverage/*.toml, as one table.

    python -m qlab.classroom.coverage        # writes docs/coverage.md

A lesson's file (`04.toml`, or `ex04.toml` for an exercise) has a table for each id that the lesson shows:
`what` is claimed, the `cells` that show it by running and asserting, the `prose` cells that say it where
nothing can be run, and the `tests` that hold it. `later.toml` lists the ids of lessons still to come.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

SOURCE = Path("docs/coverage")
TABLE = Path("docs/coverage.md")
KEYS = {"what", "cells", "prose", "tests"}
LONGEST_CLAIM = 200
INTRODUCTION = """# What the course shows, statement by statement

The course covers two texts: the chapter GĐ10 on background jobs and an article on errors in queue workers.
Each of their statements has an id, and this table says where it is shown: by a cell of a lesson that runs and
asserts it (`03:equal` is the cell with the id `equal` in lesson 03), by a passage that says it where there is
nothing to run (in brackets), or by a test. Made from [coverage/](coverage/) by
`python -m qlab.classroom.coverage`; a test holds that every cell named here exists, was run and asserts, and
that every test exists.
"""


@dataclass(frozen=True)
class Entry:
    """One statement, as one lesson shows it."""

    id: str
    lesson: str
    what: str
    cells: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """Where, in one line."""
        places = [f"`{self.lesson}:{cell}`" for cell in self.cells]
        places += [f"(`{self.lesson}:{cell}`)" for cell in self.prose]
        places += [f"`{test}`" for test in self.tests]
        return ", ".join(places)


@dataclass(frozen=True)
class Coverage:
    """All that docs/coverage/ says. `ids` maps each known id to the title of its place."""

    ids: dict[str, str]
    entries: list[Entry]
    later: dict[str, list[str]]
    problems: list[str]

    @classmethod
    def read(cls, root: Path = Path()) -> Coverage:
        """Read the files below `root`; what is wrong with them becomes `problems`, a line each."""
        folder = root / SOURCE
        ids = dict(_ids(tomllib.loads((folder / "legend.toml").read_text(encoding="utf-8"))))
        later = {
            lesson: table["ids"]
            for lesson, table in tomllib.loads((folder / "later.toml").read_text(encoding="utf-8")).items()
        }
        entries: list[Entry] = []
        problems: list[str] = []
        for path in sorted(set(folder.glob("*.toml")) - {folder / "legend.toml", folder / "later.toml"}):
            for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
                if set(table) - KEYS or "what" not in table:
                    problems.append(f"{path.name} {name}: needs `what`, may have {sorted(KEYS - {'what'})}")
                    continue
                entries.append(Entry(name, path.stem, **table))
        coverage = cls(ids, entries, later, problems)
        problems += _problems(coverage, root)
        return coverage

    def table(self) -> str:
        """The whole of docs/coverage.md."""
        parts = [INTRODUCTION]
        for title in dict.fromkeys(self.ids.values()):
            parts += [f"\n## {title}\n", "| id | statement | shown by |", "|---|---|---|"]
            parts += [self._row(id) for id in self.ids if self.ids[id] == title]
        return "\n".join(parts) + "\n"

    def _row(self, id: str) -> str:
        entries = [entry for entry in self.entries if entry.id == id]
        coming = [lesson for lesson, ids in self.later.items() if id in ids]
        shown = [entry.shown for entry in entries]
        if coming:
            shown.append(f"to come: {', '.join(coming)}")
        what = entries[0].what if entries else "—"
        return f"| {id} | {what.replace('|', '∣')} | {'; '.join(shown)} |"


def _ids(legend: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for place, table in legend.items():
        dot = "." if place.startswith("S") else ""
        for number in range(1, table["count"] + 1):
            yield f"{place}{dot}{number:0{table.get('digits', 1)}}", table["title"]


def _problems(coverage: Coverage, root: Path) -> Iterator[str]:
    for entry in coverage.entries:
        yield from (f"{entry.lesson} {entry.id}: {problem}" for problem in _of(entry, coverage, root))
    for lesson, ids in coverage.later.items():
        yield from (f"later {lesson}: {id} is no id of the legend" for id in ids if id not in coverage.ids)
        if _notebook(root, lesson):
            yield f"later {lesson}: this notebook exists, so its ids belong in {lesson}.toml"
    placed = {entry.id for entry in coverage.entries} | {id for ids in coverage.later.values() for id in ids}
    yield from (f"{id}: nothing says where it is shown" for id in coverage.ids if id not in placed)


def _of(entry: Entry, coverage: Coverage, root: Path) -> Iterator[str]:
    if entry.id not in coverage.ids:
        yield "no id of the legend"
    if not entry.what.strip() or "\n" in entry.what or len(entry.what) > LONGEST_CLAIM:
        yield f"`what` is one line of at most {LONGEST_CLAIM} characters"
    if not (entry.cells or entry.prose or entry.tests):
        yield "names no cell, passage or test"
    cells = _cells(root, entry.lesson)
    for name in entry.cells:
        cell = cells.get(name)
        if cell is None or cell.cell_type != "code":
            yield f"the lesson has no code cell {name}"
        elif cell.execution_count is None:
            yield f"the cell {name} was not run"
    if entry.cells and not any(_asserts(cells[name].source) for name in entry.cells if name in cells):
        yield "none of its cells asserts anything"
    yield from (f"the lesson has no cell {name}" for name in entry.prose if name not in cells)
    yield from (f"there is no test {test}" for test in entry.tests if not _is_test(root, test))


@cache
def _cells(root: Path, lesson: str) -> dict[str, Any]:
    path = _notebook(root, lesson)
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells} if path else {}


def _notebook(root: Path, lesson: str) -> Path | None:
    """The notebook of a lesson (`04`), or the solution of an exercise (`ex04`)."""
    folder = root / ("solutions" if lesson.startswith("ex") else "notebooks")
    return next(iter(folder.glob(f"{lesson}_*.ipynb")), None)


def _asserts(source: str) -> bool:
    """True for a cell that fails when its figure is wrong."""
    return bool(re.search(r"^\s*(assert\b|await\s+assert_|assert_)", source, re.MULTILINE))


def _is_test(root: Path, name: str) -> bool:
    path, _, function = name.partition("::")
    source = root / path
    return source.is_file() and (not function or function.split("[")[0] in _functions(source))


@cache
def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)  # TestQueue = QueueMachine.TestCase
    }


def main() -> int:
    """Write docs/coverage.md, and print what is wrong."""
    coverage = Coverage.read()
    TABLE.write_text(coverage.table(), encoding="utf-8")
    for problem in coverage.problems:
        print(problem, file=sys.stderr)
    return 1 if coverage.problems else 0


if __name__ == "__main__":
    sys.exit(main())
