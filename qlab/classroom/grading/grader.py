"""Grades one submission: its answers, in processes of their own, check by check."""

import asyncio
import contextlib
import importlib
from functools import cache
from pathlib import Path
from typing import Any

from qlab.classroom.exercises import ROOT, known
from qlab.classroom.grading.cage import Cage
from qlab.classroom.grading.database import SubmissionDatabase
from qlab.classroom.grading.sandbox import AnswerFailed, Nursery
from qlab.classroom.grading.scene import Exercise, Scene
from qlab.classroom.grading.submission import BadFile, Pristine, Submission, read_answers, read_pristine
from qlab.classroom.grading.verdict import Broken, Grade, Verdict

CHECK_TIMEOUT = 30.0  # seconds for one check; a right answer takes less than one


@cache
def load(name: str, root: Path = ROOT) -> tuple[Pristine, Exercise]:
    """The exercise as handed out, and how it is graded. Raises KeyError when it cannot be graded."""
    path = known(root)[name]
    pristine = read_pristine(path)
    exercise: Exercise = importlib.import_module(f"qlab.classroom.grading.{name}").EXERCISE
    if set(pristine.points) != set(exercise.checks):
        raise RuntimeError(f"{name}: the notebook has checks {sorted(pristine.points)}, the grader others")
    return pristine, exercise


async def grade(submission: Submission, nursery: Nursery, server: str, seed: str = "qlab") -> Grade:
    """A verdict for every check of the exercise. Raises only when the grader itself cannot work."""
    pristine, exercise = load(submission.exercise)
    try:
        cells = _cells(submission, pristine)
    except BadFile as bad:
        return failed(submission, bad.code, bad.detail)
    async with SubmissionDatabase(server, exercise.ddl, exercise.table) as database:
        cage = Cage(nursery, cut_network=database.on_socket)
        try:
            result = await _all(submission, cells, database, cage, seed)
        finally:
            left = cage.close()
    result.own_user, result.network_cut = cage.uid is not None, nursery.network_cut
    if left:
        result.notes.append(f"{left} processes could not be ended")
    return result


async def _all(
    submission: Submission, cells: list[tuple[str, str]], database: SubmissionDatabase, cage: Cage, seed: str
) -> Grade:
    """Load the answer, then run check after check."""
    pristine, exercise = load(submission.exercise)
    failure = await _load_once(exercise, cells, database, cage)
    if failure is not None:
        return failed(submission, failure.code, failure.detail)
    verdicts = {}
    for check in pristine.points:
        who = f"{seed}:{submission.student}:{check}"
        verdicts[check] = await _one(check, exercise.scene(exercise, cells, database, cage, who))
    return Grade(submission.student, submission.path.name, pristine.name, pristine.points, verdicts)


def _cells(submission: Submission, pristine: Pristine) -> list[tuple[str, str]]:
    """The pristine cells with the student's answers in their places. Raises BadFile."""
    if submission.problem is not None:
        raise submission.problem
    answers = read_answers(submission.path, pristine.answers)
    if missing := [name for name in pristine.answers if name not in answers]:
        raise BadFile("missing_cell", cells=missing)
    blank = dict(pristine.cells)
    if all(answers[name].strip() in ("", blank[name].strip()) for name in pristine.answers):
        raise BadFile("unanswered")
    return [(name, answers.get(name, source)) for name, source in pristine.cells]


def failed(submission: Submission, code: str, detail: dict[str, Any]) -> Grade:
    """No points, and the same reason for every check."""
    pristine, _ = load(submission.exercise)
    verdicts = {check: Verdict(check, False, code, detail) for check in pristine.points}
    return Grade(submission.student, submission.path.name, pristine.name, pristine.points, verdicts)


async def _load_once(
    exercise: Exercise, cells: list[tuple[str, str]], database: SubmissionDatabase, cage: Cage
) -> AnswerFailed | None:
    """Load the answer once: what does not load passes no check, and need not be waited for six times."""
    await database.reset()
    scene = exercise.scene(exercise, cells, database, cage, "load")
    try:
        await scene.spawn()
    except AnswerFailed as failure:
        return failure
    finally:
        await scene.close()
        cage.kill_all()
    return None


async def _one(check: str, scene: Scene) -> Verdict:
    """Run one check. Anything but its regular end is a failed verdict."""
    try:
        await scene.database.reset()
        async with asyncio.timeout(CHECK_TIMEOUT), scene.open():
            await scene.run(check)
        return Verdict(check, True)
    except Broken as broken:
        return Verdict(check, False, broken.mistake, broken.evidence)
    except AnswerFailed as failure:
        return Verdict(check, False, failure.code, failure.detail)
    except TimeoutError:
        return Verdict(check, False, "timeout", {"seconds": CHECK_TIMEOUT})
    finally:
        with contextlib.suppress(AnswerFailed):
            await scene.close()
        scene.kill_all()
