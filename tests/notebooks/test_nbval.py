"""Lessons and solutions run and print what is stored; an untouched exercise does not."""

import time
from pathlib import Path

import pytest

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
    assert nbval(path, tmp_path).passed
    began = time.monotonic()
    result = nbval(path, tmp_path)
    assert result.passed, result.said
    assert time.monotonic() - began < LESSON_LIMIT


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", EXERCISES, ids=name)
def test_an_untouched_exercise_fails_the_check_that_learners_run(path: Path, tmp_path: Path):
    result = nbval(path, tmp_path, "--nbval-lax")
    assert result.failed, result.said
    assert "failed" in result.said


def test_nbval_sees_a_changed_output(tmp_path: Path):
    """The comparison itself works here: a wrong stored number must fail."""
    wrong = tmp_path / "wrong.ipynb"
    stored = LESSONS[0].read_text(encoding="utf-8")
    assert "'failed': []" in stored
    wrong.write_text(stored.replace("'failed': []", "'failed': ['python']"), encoding="utf-8")
    result = nbval(wrong, tmp_path / "home")
    assert result.failed, result.said
    assert "1 failed" in result.said
