"""Reads a submitted notebook as data: nothing in it is run, whatever is wrong with it becomes one sentence.

Only the sources of the answer cells are taken, by cell id. Outputs, check cells and all other cells are left.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qlab.classroom import exercises

MAX_FILE = 20 << 20  # bytes
MAX_ANSWER = 100_000  # characters of one answer cell
_NAME = re.compile(r"ex\d\d", re.IGNORECASE)


class BadFile(Exception):
    """The file cannot be graded. `code` names why."""

    def __init__(self, code: str, **detail: Any) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class Pristine:
    """An exercise as it was handed out: cells to run in order, answers to fill in, points of the checks."""

    name: str
    cells: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    points: dict[str, int]


@dataclass
class Submission:
    """One submitted file: whose it is, which exercise, and its answers or why there are none."""

    student: str
    path: Path
    exercise: str
    answers: dict[str, str] = field(default_factory=dict)
    problem: BadFile | None = None


def read_pristine(path: Path) -> Pristine:
    """The exercise of this notebook file of ours."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells, answers, points = [], [], {}
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        if "setup" in tags or "answer" in tags:
            cells.append((cell["id"], source_of(cell)))
        if "answer" in tags:
            answers.append(cell["id"])
        if "check" in tags:
            points[cell["metadata"]["qlab"]["check"]] = int(cell["metadata"]["qlab"]["points"])
    name = notebook["metadata"]["qlab"]["exercise"]
    return Pristine(name, tuple(cells), tuple(answers), points)


def source_of(cell: dict[str, Any]) -> str:
    """The source of a cell, which may be stored as a list of lines."""
    source = cell["source"]
    text = "".join(source) if isinstance(source, list) else source
    if not isinstance(text, str):
        raise TypeError("source is neither text nor a list of texts")
    return text


def read_answers(path: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    """The sources of the answer cells. Raises BadFile."""
    notebook = _parse(path)
    found: dict[str, str] = {}
    for cell in _cells(notebook):
        if cell.get("cell_type") != "code":
            continue
        name = _answer_id(cell)
        if name not in wanted:
            continue
        if name in found:
            raise BadFile("duplicate_cell", cell=name)
        try:
            found[name] = source_of(cell)
            found[name].encode()
        except (KeyError, TypeError, UnicodeEncodeError):
            raise BadFile("not_a_notebook", cell=name) from None
        if len(found[name]) > MAX_ANSWER:
            raise BadFile("answer_too_big", cell=name, characters=len(found[name]), limit=MAX_ANSWER)
    return found


def _answer_id(cell: dict[str, Any]) -> str | None:
    """The id of a cell; editors that drop ids keep the name that we store in the metadata."""
    if isinstance(cell.get("id"), str):
        return str(cell["id"])
    metadata = cell.get("metadata")
    ours = metadata.get("qlab") if isinstance(metadata, dict) else None
    name = ours.get("answer") if isinstance(ours, dict) else None
    return name if isinstance(name, str) else None


def _parse(path: Path) -> dict[str, Any]:
    if path.is_symlink() or not path.is_file():
        raise BadFile("not_a_file")
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise BadFile("file_too_big", bytes=size, limit=MAX_FILE)
        data = path.read_bytes()
    except OSError as error:
        raise BadFile("unreadable", error=str(error.strerror)) from None
    if not data.strip():
        raise BadFile("empty_file")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadFile("not_utf8") from None
    except (ValueError, RecursionError) as error:
        raise BadFile("not_json", error=str(error)[:100]) from None
    if not isinstance(notebook, dict):
        raise BadFile("not_a_notebook")
    return notebook


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    if "nbformat" not in notebook:
        raise BadFile("not_a_notebook")
    if notebook["nbformat"] != 4:
        raise BadFile("wrong_format", nbformat=str(notebook["nbformat"])[:20])
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise BadFile("not_a_notebook")
    return cells


def find(folder: Path, known: list[str], exercise: str | None = None) -> list[Submission]:
    """Every notebook below the folder, sorted by name; folders whose name begins with a dot are left out.

    exercise: what to take for a file whose name does not say it.
    """
    found = []
    for path in sorted(folder.rglob("*.ipynb")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts):
            continue
        named = [match.group().lower() for match in _NAME.finditer(str(inside))]
        fitting = [name for name in named if name in known]
        unnamed = "" if named else exercise or (known[0] if len(known) == 1 else "")
        name = fitting[-1] if fitting else unnamed
        submission = Submission(_student(inside), path, name)
        if name not in known:
            submission.problem = BadFile("unknown_exercise", known=known)
        found.append(submission)
    return found


def _student(inside: Path) -> str:
    """Who handed it in: the first folder, or the file's name without the exercise's."""
    if len(inside.parts) > 1:
        return inside.parts[0]
    stems = sorted((path.stem for path in exercises.known().values()), reverse=True)
    names = "|".join([*map(re.escape, stems), r"ex\d\d"])  # the long names first
    return re.sub(rf"[_\-. ]*({names})[_\-. ]*", " ", inside.stem, flags=re.IGNORECASE).strip() or inside.stem
