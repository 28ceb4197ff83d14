"""Lessons and solutions run and print what is stored; an untouched exercise does not."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from qlab.classroom.checks import check
from qlab.classroom.notebooks import KERNEL

from .nbval_run import EXERCISES, LESSONS, SOLUTIONS, nbval

LESSON_LIMIT = 45  # seconds, from the course's promise to the learner


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", LESSONS + SOLUTIONS, ids=name)
def test_it_runs_and_prints_what_is_stored(path: Path, tmp_path: Path):
    result = nbval(path, tmp_path)
    assert result.passed, result.said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", LESSONS + SOLUTIONS, ids=name)
def test_a_second_run_passes_as_well_and_within_the_promised_time(path: Path, tmp_path: Path):
    for _ in range(2):
        result = nbval(path, tmp_path)
        assert result.passed, result.said
    assert result.seconds < LESSON_LIMIT


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", EXERCISES, ids=name)
def test_an_untouched_exercise_fails_the_check_that_learners_run(path: Path, tmp_path: Path):
    result = nbval(path, tmp_path, "--nbval-lax")
    assert result.failed, result.said
    assert "failed" in result.said


def _store(path: Path, printed: str, count: int | None) -> Path:
    output = new_output("stream", name="stdout", text=printed)
    cell = new_code_cell("print(1 + 1)", execution_count=count, outputs=[output] if count else [])
    nbformat.write(new_notebook(cells=[cell], metadata={"kernelspec": KERNEL}), path)
    return path


def test_nbval_sees_a_wrong_output_but_not_a_cleared_cell_which_our_own_check_refuses(tmp_path: Path):
    right = _store(tmp_path / "right.ipynb", "2\n", 1)
    wrong = _store(tmp_path / "wrong.ipynb", "3\n", 1)
    cleared = _store(tmp_path / "cleared.ipynb", "", None)
    assert nbval(right, tmp_path).passed
    assert nbval(wrong, tmp_path).failed
    assert nbval(cleared, tmp_path).passed
    assert check(right) == []
    assert "without having been run" in "".join(check(cleared))
