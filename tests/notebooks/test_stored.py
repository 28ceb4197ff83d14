"""Stored notebooks: executed from top to bottom, clean, complete; nbval alone would accept a cleared one."""

from pathlib import Path

import pytest

from qlab.classroom.board import lessons
from qlab.classroom.checks import check
from qlab.classroom.texts import load, names

from .nbval_run import EXERCISES, LESSONS, SOLUTIONS


@pytest.mark.parametrize(
    "path", LESSONS + SOLUTIONS + EXERCISES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_stored_notebook_is_executed_clean_and_complete(path: Path):
    assert check(path) == []


def test_every_exercise_has_its_solution():
    assert [path.name for path in EXERCISES] == [path.name for path in SOLUTIONS]
    assert EXERCISES


def test_every_lesson_is_on_the_map():
    assert sorted(path.name for path in LESSONS) == [lesson.file for lesson in lessons() if lesson.file]
    assert {path.name[:2] for path in LESSONS} >= {"00", "03", "07"}


def test_every_prediction_and_quiz_is_asked_somewhere():
    asked = "".join(path.read_text(encoding="utf-8") for path in LESSONS)
    for name in names("predict") + names("quiz"):
        assert name in asked, f"nobody asks {name}"


def test_a_lesson_with_items_of_the_board_asks_their_quiz_and_proves_them():
    there = {path.name[:2]: path.read_text(encoding="utf-8") for path in LESSONS}
    for item, raw in load("board")["items"].items():
        if raw["lesson"] in there:
            assert f'Quiz(\\"{item}\\")' in there[raw["lesson"]], f"no quiz for {item}"
            assert f'prove(\\"{item}\\"' in there[raw["lesson"]], f"no proof of {item}"
