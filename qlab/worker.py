"""The consumer's side of a queue: options, start, graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from redis.exceptions import RedisError

from qlab import schedule
from qlab.connection import Clock, Connection, RedisLike
from qlab.errors import QlabError, RedisUnavailable
from qlab.execute import Handler, Settlement, check_handler, execute, failure, runs_on_loop
from qlab.hooks import Hooks
from qlab.job import Job
from qlab.keys import check_job_id
from qlab.lease import Leases
from qlab.limiter import Limiter
from qlab.pump import Pump
from qlab.retry import Seconds, Waits, check_waits, seconds
from qlab.slots import Slots
from qlab.tasks import end

if TYPE_CHECKING:
    from qlab.sandbox import Sandbox

log = logging.getLogger("qlab.worker")

FORCE_GRACE = 1.2
"""Seconds that a cancelled handler has for its `finally` before its job is given back without it."""

MOST_CONCURRENCY = 100_000

MOST_ABANDONED = 100
"""Threads more than `concurrency`, in place of those whose attempt has passed its limit: a thread that hangs
cannot be stopped, and must not keep the next job waiting."""

LAST_CALL = 0.1
"""Seconds for which a close waits for handlers that have ignored all that."""


class Worker:
    """Takes jobs from a queue and runs `handler(job)`, up to `concurrency` at a time.

    An `async def` handler runs on the event loop, a plain `def` in a thread; with `sandbox=True` either runs
    in a process of its own, where it may block or die as it likes. Its return value (JSON) is the
    job's result; an exception is a failed attempt. Delivery is at least once: a handler may see a job again.

    `lock_duration` (seconds) is how long a job is lent; the lease is renewed every `lock_renew_time`
    (default: half of it) as long as the loop runs, so a job may take much longer than the lock. Every
    `stalled_interval` the worker looks for jobs whose lease ran out; a job that stalled more than
    `max_stalled_count` times fails. A `limiter` becomes the rule of the whole queue. `name` shows in the
    job and in the events. `backoff` is a plain function `(attempts_made, error) -> seconds`, asked for jobs
    that bring no backoff of their own, or a dict of such functions for `Backoff.custom(name)`.

    Raises TypeError for a handler that cannot be called, ValueError for options that do not fit together.
    """

    def __init__(
        self,
        queue: str,
        handler: Handler,
        redis: RedisLike = None,
        *,
        concurrency: int = 1,
        lock_duration: Seconds = 30.0,
        lock_renew_time: Seconds | None = None,
        stalled_interval: Seconds = 30.0,
        max_stalled_count: int = 1,
        limiter: Limiter | None = None,
        backoff: Callable[[int, BaseException], Seconds] | Waits | None = None,
        sandbox: bool = False,
        name: str | None = None,
        prefix: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._handler = check_handler(handler)
        self.concurrency = _whole(concurrency, "concurrency", least=1, most=MOST_CONCURRENCY)
        self.lock_duration = seconds(lock_duration, "lock_duration")
        self.lock_renew_time = self.lock_duration / 2 if lock_renew_time is None else seconds(
            lock_renew_time, "lock_renew_time"
        )  # fmt: skip
        self.stalled_interval = seconds(stalled_interval, "stalled_interval")
        self.max_stalled_count = _whole(max_stalled_count, "max_stalled_count", least=0)
        if not 0.001 <= self.lock_renew_time < self.lock_duration:
            raise ValueError(
                f"lock_renew_time ({self.lock_renew_time:g} s) must be shorter than lock_duration "
                f"({self.lock_duration:g} s): a lease that ends before its renewal loses every job"
            )
        if self.stalled_interval <= 0:
            raise ValueError("stalled_interval must be more than 0 seconds")
        here = f"{socket.gethostname()}-{os.getpid()}"
        self.name = here if name is None else check_job_id(name, "worker name")
        self.connection = Connection(queue, redis, prefix, clock)
        if limiter is not None and not isinstance(limiter, Limiter):
            raise TypeError(f"limiter must be a Limiter(max, duration), not {limiter!r}")
        self._limiter, self._waits = limiter, check_waits(backoff)
        self._token = secrets.token_hex(8)
        self._pump: Pump | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._slots: Slots | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._sandbox = _sandbox(handler, self._waits) if sandbox else None
        self._hooks = Hooks()
        self._force = asyncio.Event()
        self.broken = asyncio.Event()
        """Set when the worker cannot go on, for a reason that does not pass; the log says which."""

    @property
    def healthy(self) -> bool:
        """Redis answers this worker: false at most 5 s after it has stopped to, true once it does again."""
        return self._pump is not None and self._pump.healthy and not self.broken.is_set()

    def on(self, event: str, callback: Callable[..., Any]) -> None:
        """Call `callback` (a function or a coroutine function) on an event of this worker.

        `completed`(job, JSON of the result), `failed` and `retrying`(job, reason), `stalled`(job id, True if
        it failed), `lock-lost`(job, error), `error`(error: Redis cannot be reached, or the worker cannot go
        on). Raises ValueError for any other event.
        """
        self._hooks.on(event, callback)

    @property
    def running(self) -> int:
        """Jobs that this worker holds now."""
        return 0 if self._pump is None else len(self._pump.held)

    async def start(self) -> Self:
        """Begin to work. While Redis cannot be reached the worker logs it and keeps trying.

        Raises RuntimeError if it was started before.
        """
        if self._pump is not None:
            raise RuntimeError("this worker was started before; make a new one")
        pump = self._prepare()
        self._tasks = [asyncio.create_task(pump.run(), name="qlab-pump")]
        self._tasks += [
            asyncio.create_task(self._leases.renew_for_ever(), name="qlab-renew"),
            asyncio.create_task(self._leases.recover_for_ever(), name="qlab-recover"),
            asyncio.create_task(self._tick_for_ever(pump), name="qlab-schedules"),
            asyncio.create_task(pump.beat_for_ever(), name="qlab-beat"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        return self

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.broken.is_set():
            ours = isinstance(error, QlabError)
            log.critical("worker %s cannot go on: %s", self.name, error, exc_info=None if ours else error)
            self._hooks.fire("error", error)
            self.broken.set()

    async def step(self) -> int:
        """Make one trip of the pump, for tests that drive a worker by hand; return how many jobs it took."""
        pump = self._pump or self._prepare()
        return await pump.step()

    def _prepare(self) -> Pump:
        if self._sandbox is None and not runs_on_loop(self._handler):
            most = self.concurrency + MOST_ABANDONED
            self._threads = ThreadPoolExecutor(most, thread_name_prefix="qlab-job")
        lock_ms = int(self.lock_duration * 1000)
        self._pump = Pump(
            self.connection, self.name, self._token, lock_ms, self.concurrency, self._hooks, self._limiter
        )
        self._leases = Leases(
            self.connection, self._pump, self.name, self._token, self._hooks,
            lock=self.lock_duration, renew=self.lock_renew_time,
            stalled_interval=self.stalled_interval, max_stalled=self.max_stalled_count,
        )  # fmt: skip
        self._slots = Slots(self._pump, self._run_job, self.concurrency)
        return self._pump

    async def _tick_for_ever(self, pump: Pump) -> None:
        pause = 0.05
        while True:
            await pump.tick_due.wait()
            pump.tick_due.clear()
            settled = 0
            with contextlib.suppress(RedisUnavailable, RedisError):  # the pump reports it
                settled = await schedule.run_due(self.connection)
            # Nothing settled: somebody else was first, or a schedule is broken; do not ask for ever.
            pause = 0.05 if settled else min(pause * 2, 5.0)
            if not settled:
                await asyncio.sleep(pause)
            pump.look()

    async def _run_job(self, job: Job) -> Settlement | None:
        try:
            if self._sandbox is not None:
                return await self._sandbox.run(job)
            return await execute(job, self._handler, self._threads, self._waits, self._is_giving_back)
        except Exception as error:  # of ours, or of the machine: no job may be held for ever because of it
            log.exception("job %s could not be run", job.id)
            return failure(job, error, self._waits)

    def _is_giving_back(self) -> bool:
        return self._slots is not None and self._slots.giving_back

    async def close(self, timeout: Seconds | None = None) -> None:
        """Take no more jobs, let the running ones end, settle them, disconnect.

        After `timeout` seconds (None: no limit), or at once after `force`, the rest is cancelled and given
        back to the queue: no attempt is counted, another worker starts them at once.
        """
        pump = self._pump
        if pump is not None and self._tasks:
            pump.stop_taking()
            await self._settle_all(pump, None if timeout is None else seconds(timeout, "timeout"))
            await end(self._tasks)
        if self._slots is not None:
            await self._slots.close(LAST_CALL)
        if self._sandbox is not None:
            self._sandbox.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if pump is not None:
            await pump.close()
        await self.connection.close()
        self._tasks = []

    def force(self) -> None:
        """Make a `close` that is waiting for jobs give them back now."""
        self._force.set()

    async def _settle_all(self, pump: Pump, timeout: float | None) -> None:
        pumping = self._tasks[0]
        forced = asyncio.create_task(self._force.wait())
        try:
            await asyncio.wait([pumping, forced], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forced.cancel()
        if pumping.done():
            return
        if self._slots is not None:
            self._slots.give_back()
        await asyncio.wait([pumping], timeout=FORCE_GRACE)
        if not pumping.done():
            pump.abandon()
            await asyncio.wait([pumping], timeout=FORCE_GRACE)
        if not pumping.done():
            log.error("worker %s: could not give back %d jobs, they will stall", self.name, len(pump.held))

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def run(self, close_timeout: Seconds | None = None) -> int:
        """Work until SIGTERM or SIGINT, then close gracefully; a second signal gives running jobs back.

        So does the end of `close_timeout` (seconds; None: no limit). Set it below the time after which
        whoever sent the signal kills the process. Returns the exit code. For a process of its own:
        `python -m qlab worker module:attribute`.
        """
        from qlab.runner import run_worker

        return run_worker(self, None if close_timeout is None else seconds(close_timeout, "close_timeout"))


def _sandbox(handler: Handler, waits: Waits) -> Sandbox:
    from qlab.sandbox import Sandbox  # most workers have none and need not load multiprocessing

    return Sandbox(handler, waits)


def _whole(value: object, what: str, *, least: int, most: int = 2**31) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        words = f"of at least {least}" if most == 2**31 else f"from {least} to {most:,}"
        raise ValueError(f"{what} must be a whole number {words}, not {value!r}")
    return value
