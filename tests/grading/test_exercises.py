"""Exercises come from their solutions, and a learner's copy is never overwritten."""

from pathlib import Path

import nbformat
import pytest

from qlab.classroom import exercises
from qlab.classroom.exercises import ROOT, ExerciseError, clear_solution, generated, start

SOLUTIONS = sorted((ROOT / "solutions").glob("ex*.ipynb"))
BLOCK = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\nx = 1"


def copy_of_the_course(tmp_path: Path) -> Path:
    for folder in ("solutions", "exercises"):
        (tmp_path / folder).mkdir()
        for path in (ROOT / folder).glob("*.ipynb"):
            (tmp_path / folder / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_the_stored_exercise_equals_the_generated_one(solution: Path) -> None:
    stored = (ROOT / "exercises" / solution.name).read_text(encoding="utf-8")
    assert stored == generated(solution), "run: python -m qlab.classroom.exercises"


def test_every_exercise_has_a_solution() -> None:
    assert SOLUTIONS
    assert [path.name for path in SOLUTIONS] == sorted(p.name for p in (ROOT / "exercises").glob("*.ipynb"))


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_nothing_of_the_solution_is_left(solution: Path) -> None:
    text = generated(solution)
    assert "SOLUTION" not in text
    assert "ON CONFLICT (key) DO UPDATE\\n" not in text
    answers = [c for c in nbformat.reads(text, 4).cells if "answer" in c.metadata.get("tags", [])]
    assert all("NotImplementedError" in cell.source for cell in answers)


def test_clear_solution_keeps_the_indentation_and_the_rest() -> None:
    assert clear_solution(BLOCK) == (
        "def f():\n    # Viết lời giải của bạn ở đây\n"
        '    raise NotImplementedError("bạn chưa viết phần này")\nx = 1'
    )


@pytest.mark.parametrize(
    "source",
    ["### BEGIN SOLUTION", "### END SOLUTION", "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION"],
)
def test_marks_that_do_not_pair_are_refused(source: str) -> None:
    with pytest.raises(ExerciseError, match="SOLUTION"):
        clear_solution(source)


def test_regenerate_writes_only_what_changed(tmp_path: Path) -> None:
    root = copy_of_the_course(tmp_path)
    assert exercises.regenerate(root) == []
    (root / "exercises" / SOLUTIONS[0].name).write_text("old")
    assert [p.name for p in exercises.regenerate(root)] == [SOLUTIONS[0].name]
    with pytest.raises(ExerciseError, match="solutions/"):
        exercises.regenerate(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["ex04", "EX04", "ex04_idempotent_charge", "ex04_idempotent_charge.ipynb"])
def test_start_copies_once_and_never_overwrites(tmp_path: Path, name: str) -> None:
    root = copy_of_the_course(tmp_path)
    path, new = start(name, root)
    assert new
    assert path == root / "my" / "ex04_idempotent_charge.ipynb"
    path.write_text("my own work")
    assert start(name, root) == (path, False)
    assert path.read_text() == "my own work"
    assert [p.name for p in (root / "my").iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["", "ex99", "../ex04", "4"])
def test_start_names_the_exercises_that_exist(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExerciseError, match="ex04"):
        start(name, copy_of_the_course(tmp_path))
    assert not (tmp_path / "my").exists()


def test_main_start_answers_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert exercises.main_start("ex99") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Không có bài tập tên 'ex99'.")
    assert said.err.count("\n") == 1
