"""One nursery for all the tests of a process; grading one notebook; no process left behind."""

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from qlab.classroom.grading.grader import grade
from qlab.classroom.grading.sandbox import Nursery
from qlab.classroom.grading.submission import find
from qlab.classroom.grading.verdict import Grade

GradeIt = Callable[[Path], Awaitable[Grade]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def grade_it(nursery: Nursery, pg_dsn: str) -> GradeIt:
    """Grade the only notebook of a folder on the server of this run."""

    async def graded(folder: Path) -> Grade:
        (submission,) = find(folder, ["ex04"])
        return await grade(submission, nursery, os.environ["QLAB_PG_DSN"])

    return graded
