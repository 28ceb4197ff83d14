"""A submitted file is read as data; whatever is wrong with it is one named reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from qlab.classroom.exercises import known
from qlab.classroom.grading.grader import load
from qlab.classroom.grading.submission import BadFile, find, read_answers, read_pristine
from tests.grading.answers import hand_in, notebook

WANTED = ("ans-sql", "ans-handler")


def without(field: str) -> dict[str, Any]:
    made = notebook()
    for cell in made["cells"]:
        cell.pop(field, None)
    return made


def with_cells(cells: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


GOOD = json.dumps(notebook(), ensure_ascii=False).encode()
TWO = {"id": "ans-sql", "cell_type": "code", "source": "", "metadata": {}, "outputs": []}
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty_file"),
    "blank": (b" \n", "empty_file"),
    "not utf-8": ("đúng".encode("utf-16"), "not_utf8"),
    "latin": (GOOD.replace("đ".encode(), b"\xf0"), "not_utf8"),
    "truncated": (GOOD[: len(GOOD) // 2].decode(errors="ignore").encode(), "not_json"),
    "deep": (b"[" * 100_000, "not_json"),
    "a list": (b"[]", "not_a_notebook"),
    "no format": (b"{}", "not_a_notebook"),
    "format 3": (b'{"nbformat": 3, "worksheets": []}', "wrong_format"),
    "format 4 as text": (b'{"nbformat": "4", "cells": []}', "wrong_format"),
    "cells are numbers": (with_cells([1]), "not_a_notebook"),
    "cells are no list": (with_cells({"a": 1}), "not_a_notebook"),
    "twice the same id": (with_cells([TWO, TWO]), "duplicate_cell"),
    "source is a number": (with_cells([{**TWO, "source": 7}]), "not_a_notebook"),
    "no source": (with_cells([{"id": "ans-sql", "cell_type": "code"}]), "not_a_notebook"),
    "lone surrogate": (with_cells([{**TWO, "source": "\ud800"}]), "not_a_notebook"),
    "huge answer": (with_cells([{**TWO, "source": "#" * 200_000}]), "answer_too_big"),
    "huge file": (b" " * (21 << 20), "file_too_big"),
}


@pytest.mark.parametrize("name", BAD)
def test_h27_bad_files_have_a_name(tmp_path: Path, name: str) -> None:
    content, code = BAD[name]
    with pytest.raises(BadFile) as caught:
        read_answers(hand_in(tmp_path, "a", content), WANTED)
    assert caught.value.code == code


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = hand_in(tmp_path, "a")
    link = tmp_path / "b_ex04.ipynb"
    link.symlink_to(target)
    with pytest.raises(BadFile) as caught:
        read_answers(link, WANTED)
    assert caught.value.code == "not_a_file"


def test_only_answer_cells_are_taken(tmp_path: Path) -> None:
    made = notebook()
    for cell in made["cells"]:
        if "check" in cell["metadata"].get("tags", []):
            cell.update(source="print('edited')", outputs=[])
    answers = read_answers(hand_in(tmp_path, "a", made), WANTED)
    assert sorted(answers) == sorted(WANTED)
    assert not [source for source in answers.values() if "edited" in source]


def test_an_editor_that_drops_ids_or_joins_lines_is_understood(tmp_path: Path) -> None:
    made = without("id")
    made["nbformat_minor"] = 4
    for cell in made["cells"]:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    assert read_answers(hand_in(tmp_path, "a", made), WANTED) == read_answers(hand_in(tmp_path, "b"), WANTED)
    marked = b"\xef\xbb\xbf" + GOOD
    assert len(read_answers(hand_in(tmp_path, "c", marked), WANTED)) == 2


def test_a_deleted_answer_cell_is_simply_not_there(tmp_path: Path) -> None:
    made = notebook()
    made["cells"] = [cell for cell in made["cells"] if cell["id"] != "ans-sql"]
    assert list(read_answers(hand_in(tmp_path, "a", made), WANTED)) == ["ans-handler"]


def test_find_names_the_student_and_the_exercise(tmp_path: Path) -> None:
    hand_in(tmp_path, "lan")
    hand_in(tmp_path / "Minh Đức", "whatever")
    for name in ("bình.ipynb", "ex99_hà.ipynb", "notes.txt", "EX04 - dung.ipynb"):
        (tmp_path / name).write_text("{}")
    hand_in(tmp_path / ".ipynb_checkpoints", "lan-checkpoint")
    found = [(s.student, s.exercise, s.problem and s.problem.code) for s in find(tmp_path, ["ex04"])]
    assert found == [
        ("dung", "ex04", None),
        ("Minh Đức", "ex04", None),
        ("bình", "ex04", None),
        ("hà", "", "unknown_exercise"),
        ("lan", "ex04", None),
    ]
    assert [s.exercise for s in find(tmp_path, ["ex04", "ex05"]) if s.student == "bình"] == [""]
    assert [s.exercise for s in find(tmp_path, ["ex04", "ex05"], "ex05") if s.student == "bình"] == ["ex05"]


def test_pristine_notebook_and_grader_agree() -> None:
    pristine, exercise = load("ex04")
    assert pristine == read_pristine(known()["ex04"])
    assert pristine.answers == WANTED
    assert [name for name, _ in pristine.cells] == ["setup", *WANTED]
    assert list(pristine.points) == list(exercise.checks)
    assert sum(pristine.points.values()) == 10
