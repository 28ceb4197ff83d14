"""The slots of a worker: tasks that run one job after the other, and what one job must not do to the next."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

from qlab.execute import Settlement
from qlab.job import Job
from qlab.pump import Pump
from qlab.tasks import end


class Slots:
    """`count` tasks that take jobs from the inbox of the pump, `run` them and tell it how they ended.

    A task serves many jobs (one for each costs more than most jobs do) until one leaves its mark on it: a
    context variable, or a cancellation that it asked for itself. Then another task takes its place.
    """

    def __init__(self, pump: Pump, run: Callable[[Job], Awaitable[Settlement | None]], count: int) -> None:
        self._pump, self._run = pump, run
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        self.giving_back = False
        """The worker cancels what still runs; a CancelledError is then no failure of a job."""
        for _ in range(count):
            self._open()

    def give_back(self) -> None:
        """Cancel what still runs."""
        self.giving_back = True
        for task in self._tasks:
            task.cancel()

    async def close(self, limit: float) -> None:
        """End the tasks, or wait `limit` seconds for those that ignore it."""
        self.giving_back = True
        await end(self._tasks, limit)

    def _open(self) -> None:
        task = asyncio.create_task(self._serve(), name="qlab-runner", context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        task = asyncio.current_task()
        while True:
            job = await self._pump.inbox.get()
            self._pump.ended(job, await self._run(job))
            if (task and task.cancelling()) or not self._is_clean():
                break
        if not self.giving_back:
            self._open()

    def _is_clean(self) -> bool:
        try:
            return contextvars.copy_context() == self._context
        except Exception:  # somebody set what cannot be compared
            return False
