"""The lease of every job that a worker holds, and the search for those that ran out.

Both run on the worker's event loop. That is on purpose: a handler that blocks the loop longer than the
lock can not renew and loses its job, just as it would in any other library with one loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from redis.exceptions import RedisError

from qlab.connection import Connection
from qlab.errors import RedisUnavailable
from qlab.hooks import Hooks
from qlab.pump import Pump

log = logging.getLogger("qlab.worker")


class Leases:
    """Renews the leases of the pump's jobs and gives out again what others have dropped."""

    def __init__(
        self, connection: Connection, pump: Pump, worker: str, token: str, hooks: Hooks, *,
        lock: float, renew: float, stalled_interval: float, max_stalled: int,
    ) -> None:  # fmt: skip
        self._connection, self._pump, self._worker, self._token = connection, pump, worker, token
        self._hooks, self._lock, self._renew = hooks, lock, renew
        self._stalled_interval, self._max_stalled = stalled_interval, max_stalled
        self._next_renewal = 0.0

    async def renew_for_ever(self) -> None:
        """Renew every `renew` seconds, and say so when the loop was late by more than half the lock."""
        while True:
            self._next_renewal = time.monotonic() + self._renew
            await asyncio.sleep(self._renew)
            late = time.monotonic() - self._next_renewal
            if late > self._lock / 2:
                log.warning(
                    "worker %s: the event loop was blocked for %.1f s, the lock lasts %.1f s; run blocking "
                    "work in a plain `def` handler, in a process, or in smaller pieces",
                    self._worker, late, self._lock,
                )  # fmt: skip
            await self._try(self.renew())

    async def recover_for_ever(self) -> None:
        """Look for stalled jobs at once and then every `stalled_interval` seconds."""
        while True:
            await self._try(self.recover())
            await asyncio.sleep(self._stalled_interval)

    async def renew(self) -> None:
        """Put off the deadline of every job that is held; mark those that are lost."""
        held = list(self._pump.held.values())
        for start in range(0, len(held), 1000):
            batch = held[start : start + 1000]
            words: list[Any] = [word for job in batch for word in (job.id, job.claim)]
            lost = set(
                await self._connection.call("renew", words, token=self._token, lock=int(self._lock * 1000))
            )
            for job in batch:
                if job.id in lost and (job.id, job.claim) in self._pump.held:
                    self._pump.lost(job)

    async def recover(self) -> int:
        """Give out again, or fail, the jobs whose lease ran out; return how many there were."""
        if time.monotonic() >= self._next_renewal:
            await self.renew()  # late: the loop was blocked, and must not drop jobs that it still holds
        found = await self._connection.call("recover", max_stalled=self._max_stalled)
        for job_id, failed in found:
            what = "failed: it stalled too often" if failed else "is given out again"
            log.warning("job %s stalled (its lease ran out) and %s", job_id, what)
            self._hooks.fire("stalled", job_id, bool(failed))
        return len(found)

    async def _try(self, call: Any) -> None:
        try:
            await call
        except (RedisUnavailable, RedisError) as error:
            self._pump.healthy = False
            self._pump.look()  # the pump reports it
            log.debug("worker %s: %s", self._worker, error)
