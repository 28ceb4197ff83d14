"""One check on its way: seeded inputs, a fresh provider, a database, the answer's processes."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qlab.classroom.grading.answer import Answer
from qlab.classroom.grading.cage import Cage
from qlab.classroom.grading.database import SubmissionDatabase
from qlab.classroom.grading.sandbox import AnswerFailed
from qlab.testing import PaymentProvider


@dataclass(frozen=True)
class Exercise:
    """How one exercise is graded. Points and answer cells come from the pristine notebook."""

    name: str
    entry: str  # what the answer must define
    stage: str  # module that carries out calls in the answer's process
    table: str
    ddl: str
    scene: "type[Scene]"
    checks: dict[str, Callable[[Any], Coroutine[Any, Any, None]]]


class Scene:
    """What a check works with. Subclasses know the exercise."""

    def __init__(
        self,
        exercise: Exercise,
        cells: list[tuple[str, str]],
        database: SubmissionDatabase,
        cage: Cage,
        seed: str,
    ) -> None:
        self.database = database
        self.provider = PaymentProvider()
        self.socket = str(cage.folder / "provider.sock")
        self.last_error: str | None = None
        self._exercise, self._cells, self._cage = exercise, cells, cage
        self._answers: list[Answer] = []
        self._tasks: list[asyncio.Task[str]] = []
        self._random = random.Random(seed)
        self.order = f"{self._random.choice('ABCDEFGH')}{self._random.randrange(10**5, 10**6)}"
        self.amount = self._random.randrange(10_000, 900_000)

    def job_id(self) -> str:
        """The id of a job, as a queue makes it: never the same twice, nothing of the order in it."""
        return f"job-{self._random.randrange(10**8, 10**9)}"

    async def spawn(self, connections: int = 1) -> Answer:
        """A fresh process with the answer loaded. Raises AnswerFailed."""
        config = {"dsn": self.database.dsn, "provider": self.socket, "connections": connections}
        answer = await self._cage.spawn(
            {
                "cells": self._cells,
                "entry": self._exercise.entry,
                "stage": self._exercise.stage,
                "config": config,
            }
        )
        self._answers.append(answer)
        await answer.loaded()
        return answer

    async def gone(self, call: Awaitable[Any], *, expected: Callable[[], bool]) -> None:
        """Wait for a call whose process is killed on purpose; `expected` tells that we did it."""
        try:
            await call
        except AnswerFailed as failure:
            if failure.code != "died" or not expected():
                raise

    def task(self, call: Coroutine[Any, Any, str]) -> "asyncio.Task[str]":
        """Start a call beside others. It ends with the scene at the latest."""
        task = asyncio.create_task(call)
        self._tasks.append(task)
        return task

    @asynccontextmanager
    async def writes_held(self) -> AsyncIterator[None]:
        """Nobody can write to the table inside this block; reading goes on."""
        async with await self.database.second_connection() as conn:
            await conn.execute(f"LOCK TABLE {self._exercise.table} IN SHARE MODE".encode())
            yield
            await conn.rollback()

    async def until(self, probe: Callable[[], Awaitable[int]], *, at_least: int, patience: float) -> bool:
        """Wait until the probe has reached a number; False when it has not after `patience` seconds."""
        end = asyncio.get_running_loop().time() + patience
        while asyncio.get_running_loop().time() < end:
            if await probe() >= at_least:
                return True
            await asyncio.sleep(0.01)
        return False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve the provider on a socket that the answer's user may use."""
        _remove(self.socket)
        async with self.provider.serve(uds=self.socket):
            os.chmod(self.socket, 0o666)  # noqa: PTH101
            yield

    async def run(self, check: str) -> None:
        """Run one check of the exercise. Raises Broken or AnswerFailed."""
        await self._exercise.checks[check](self)

    async def close(self) -> None:
        """End the calls that still run, and the answer's processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for answer in self._answers:
            await answer.close()

    def kill_all(self) -> None:
        """End whatever these processes started."""
        self._cage.kill_all()


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
