"""A known-wrong answer loses exactly the checks that it breaks, by its mistake's name; right ones pass."""

from pathlib import Path

import pytest

from tests.grading.answers import gallery, hand_in, notebook, parse
from tests.grading.conftest import GradeIt


def test_the_gallery_is_large_enough() -> None:
    assert len(gallery("wrong")) >= 6
    assert len(gallery("right")) >= 2


QUICK = ("key_first", "release_without_token", "check_then_act")  # the others with the slow tests
WRONG = [
    pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
    for path in gallery("wrong")
]


@pytest.mark.parametrize("path", WRONG)
async def test_wrong_answer_is_named(path: Path, tmp_path: Path, grade_it: GradeIt) -> None:
    answers, fails = parse(path)
    hand_in(tmp_path, path.stem, notebook(answers))
    grade = await grade_it(tmp_path)
    found = {v.check: v.mistake for v in grade.verdicts.values() if not v.passed}
    assert fails
    assert found == fails, {v.check: v.evidence for v in grade.verdicts.values()}
    assert grade.total == grade.possible - sum(grade.points[check] for check in fails)


@pytest.mark.parametrize("path", [None, *gallery("right")], ids=lambda p: p.stem if p else "reference")
async def test_right_answer_gets_everything(path: Path | None, tmp_path: Path, grade_it: GradeIt) -> None:
    hand_in(tmp_path, "right", notebook(parse(path)[0] if path else None))
    grade = await grade_it(tmp_path)
    assert {v.check: (v.mistake, v.evidence) for v in grade.verdicts.values() if not v.passed} == {}
    assert (grade.total, grade.possible, grade.notes) == (10, 10, [])
