"""Runs handlers for the jobs of a PostgreSQL queue; polls, renews its leases and recovers those of the dead.

    async def handler(job): ...                       # or: complete(conn, job) inside its own transaction
    async with PgWorker(pool, "mail", handler, concurrency=5): ...

It holds no connection while a handler runs, so a pool of one is enough for any concurrency.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

import psycopg

from qlab import payload
from qlab.errors import LockLost, PayloadError, UnrecoverableError
from qlab.postgres import pg_queue
from qlab.postgres.connections import Source
from qlab.postgres.pg_queue import PgJob
from qlab.postgres.values import function, json_text, lock_time, short_text, whole
from qlab.retry import Backoff, Seconds, seconds
from qlab.tasks import outcome_of

log = logging.getLogger("qlab.pg_worker")

Handler = Callable[[PgJob], Awaitable[Any]]
_TROUBLE = Backoff.exponential(0.5, jitter=0.5, max_delay=30)


class PgWorker:
    """Takes jobs of `queue` and runs `handler(job)`, up to `concurrency` at a time.

    lock_duration: seconds a job is lent; the lease is renewed every half of it while the loop runs.
    poll: seconds between two looks when there is nothing to do. backoff: wait between two attempts.
    max_stalled_count: a job whose lease ran out more often fails.
    handler: an async function; a plain one works too, but nothing is renewed while it runs.
    The handler's result (JSON) is the job's; an exception is a failed attempt, UnrecoverableError the last.
    """

    def __init__(
        self, source: Source, queue: str, handler: Handler, *, concurrency: int = 1,
        lock_duration: Seconds = 30.0, poll: Seconds = 0.5, max_stalled_count: int = 1,
        backoff: Backoff | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        function(handler, "handler")
        self._source, self._queue, self._handler = source, short_text(queue, "queue name"), handler
        self._concurrency = whole(concurrency, "concurrency")
        self._lock = lock_time(lock_duration, "lock_duration")
        self._poll = max(0.01, seconds(poll, "poll"))
        self._max_stalled = whole(max_stalled_count, "max_stalled_count", least=0)
        self._backoff = backoff
        self.name = short_text(name or f"{socket.gethostname()}-{os.getpid()}", "worker name")
        self._held: dict[asyncio.Task[None], PgJob] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()
        self._closing = False

    async def start(self) -> Self:
        """Begin to work. While PostgreSQL is away it logs that and keeps trying."""
        if self._tasks:
            raise RuntimeError("this worker was started before; make a new one")
        steps = ((self._take, self._poll), (self._renew, self._lock / 2), (self._recover, self._lock / 2))
        self._tasks = [asyncio.create_task(self._for_ever(step, pause)) for step, pause in steps]
        return self

    async def close(self, timeout: Seconds | None = None) -> None:
        """Take no more jobs and wait for those in hand; after `timeout` they are cancelled and given back."""
        self._closing = True
        self._wake.set()
        if self._tasks:
            await self._tasks[0]
        if self._held:
            limit = None if timeout is None else seconds(timeout, "timeout")
            _, late = await asyncio.wait(self._held, timeout=limit)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _for_ever(self, step: Callable[[], Awaitable[bool]], pause: float) -> None:
        """`step` returns True when it should be repeated at once."""
        troubles = 0
        while not (self._closing and step == self._take):
            try:
                again, troubles = await step(), 0
            except Exception as error:
                again, troubles = False, troubles + 1
                log.warning("worker %s will try again: %s", self.name, payload.error_text(error))
            if not again:
                await self._sleep(pause if not troubles else _TROUBLE.delay(troubles), step == self._take)

    async def _sleep(self, pause: float, wakes: bool) -> None:
        if not wakes:
            await asyncio.sleep(pause)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()

    async def _take(self) -> bool:
        free = self._concurrency - len(self._held)
        if free <= 0 or self._closing:
            return False
        jobs = await pg_queue.take(self._source, self._queue, self.name, most=free, lock_duration=self._lock)
        for job in jobs:
            task = asyncio.create_task(self._run(job), name=f"pg-job-{job.id}")
            self._held[task] = job
            task.add_done_callback(self._ended)
        return False  # a job that ends wakes us; if there are no more, so does the next look

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._held[task]
        self._wake.set()  # a slot is free
        if not task.cancelled() and (error := task.exception()):
            log.warning("worker %s: %s", self.name, payload.error_text(error))

    async def _run(self, job: PgJob) -> None:
        try:
            result = await outcome_of(self._handler, job)
            if result is not COMPLETED:
                json_text(result, "result")  # what cannot be stored is a failure of the handler
                await self._settle(job, lambda: pg_queue.complete(self._source, job, result))
        except LockLost as error:
            log.warning("%s", error)
        except asyncio.CancelledError as error:
            if not self._closing:  # the job's own, not ours
                await self._fail(job, error)
                return
            await pg_queue.release(self._source, job)
            raise
        except _Unsettled:
            raise
        except BaseException as error:  # a SystemExit, too, ends the job and not the process
            await self._fail(job, error)

    async def _fail(self, job: PgJob, error: BaseException) -> None:
        wait = self._backoff.delay(job.attempts_made + 1) if self._backoff else 0.0
        final = isinstance(error, UnrecoverableError | PayloadError)
        with contextlib.suppress(LockLost):
            await self._settle(job, lambda: pg_queue.fail(self._source, job, error, delay=wait, final=final))

    async def _settle(self, job: PgJob, step: Callable[[], Awaitable[object]]) -> None:
        """Note how the job ended; while PostgreSQL is away, again for as long as a lease lasts.

        What the handler did is done: a connection that broke meanwhile must not make it a failure.
        """
        until, troubles = time.monotonic() + self._lock, 0
        while True:
            try:
                await step()
                return
            except psycopg.OperationalError as error:
                troubles += 1
                if time.monotonic() > until:
                    raise _Unsettled(f"how job {job.id} ended could not be noted: {error}") from error
                await asyncio.sleep(_TROUBLE.delay(troubles))

    async def _renew(self) -> bool:
        if self._held:
            lost = await pg_queue.renew(self._source, list(self._held.values()), lock_duration=self._lock)
            for job in lost:
                if job in self._held.values():  # not settled meanwhile
                    log.warning("worker %s lost job %d (claim %d)", self.name, job.id, job.claim)
        return False

    async def _recover(self) -> bool:
        done = await pg_queue.recover(self._source, self._queue, max_stalled_count=self._max_stalled)
        return len(done) >= 1000


class _Unsettled(Exception):
    """PostgreSQL was away for too long; the lease ends, and the job comes again."""


COMPLETED = object()
"""What a handler returns that has called `complete` itself, in the transaction of its effect."""
