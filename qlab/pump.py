"""The pump: one loop, one script. Each trip settles what has ended and takes what there is room for.

What ends while a trip is on its way makes up the next trip, so batches form by themselves under load
(group commit without a timer) and a lone job still goes out at once. A worker with many slots has two such
loops, each trip for half of the slots: while the server works for one half, the jobs of the other half run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError, ResponseError

from qlab.connection import Client, Connection
from qlab.errors import LockLost, RedisUnavailable, SchemaMismatch
from qlab.execute import Settlement, put_back
from qlab.hooks import Hooks
from qlab.job import Job, JobRecord
from qlab.limiter import Limiter
from qlab.tasks import Inbox, end, pause

log = logging.getLogger("qlab.worker")

BLOCK = 3.0
"""Seconds for which an idle worker waits for a wake-up before it looks; less than the socket time-out."""

BEAT, BEAT_LIMIT = 1.0, 3.5
"""Seconds between questions of a worker without a free slot, and for the answer: `healthy` is never older."""

MOST = 1000
"""Jobs that one trip settles or takes at most."""


TWO_LANES = 8
"""Slots from which on two trips may be on their way at once."""


@dataclass(frozen=True, slots=True)
class _Trip:
    number: int
    settlements: list[Settlement]
    want: int


@dataclass(slots=True)
class _Lane:
    """Where one trip at a time is on its way; the server remembers the last one of each lane."""

    name: str
    client: Client
    trip: _Trip | None = None


class Pump:
    """Takes jobs for `concurrency` runners and settles them. `inbox` is where the runners find jobs."""

    def __init__(
        self,
        connection: Connection,
        worker: str,
        token: str,
        lock_ms: int,
        concurrency: int,
        hooks: Hooks,
        limiter: Limiter | None = None,
    ) -> None:
        self._connection, self._worker, self._token, self._lock_ms = connection, worker, token, lock_ms
        self._concurrency, self._hooks, self._limiter = concurrency, hooks, limiter
        self._holder = f"{token} {worker}"
        self.inbox: Inbox[Job] = Inbox()
        self.held: dict[tuple[str, int], Job] = {}
        """The jobs that this worker holds: not yet settled, by id and claim."""
        self.taking = True
        self.healthy = False
        self._running = 0
        self._alone = False
        self._ended: list[Settlement] = []
        self._number = 0
        self._look = True
        self._kick = asyncio.Event()
        self.tick_due = asyncio.Event()
        """Set when a schedule ticks; see qlab.schedule."""
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        names = ("", "b") if concurrency >= TWO_LANES else ("",)
        self._lanes = [_Lane(name, connection.open_client()) for name in names]
        self._failures, self._reported = 0, False
        self._blocker = connection.open_client()
        self._watching: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits to be settled."""
        return not self.held

    def ended(self, job: Job, settlement: Settlement | None) -> None:
        """A runner says how its job ended; None if the job was lost."""
        if (job.id, job.claim) not in self.held:
            return  # given up: settled by `abandon` before the handler returned
        self._running -= 1
        if settlement is None:
            del self.held[job.id, job.claim]
        else:
            self._ended.append(settlement)
        self._kick.set()

    def abandon(self) -> None:
        """Give back whatever still runs, on behalf of handlers that do not stop."""
        settled = {(one.job_id, one.claim) for one in self._unsettled()}
        for key, job in reversed(self.held.items()):  # each goes to the head: the oldest last
            if key not in settled:
                self._running -= 1
                self._ended.append(put_back(job))
        self._kick.set()

    def stop_taking(self) -> None:
        """Take no more jobs; the loop ends once the last one is settled."""
        self.taking = False
        for job in reversed(self.inbox.clear()):  # each goes to the head: the oldest last
            self.ended(job, put_back(job))
        self.look()

    def lost(self, job: Job) -> None:
        """The job is somebody else's now; say so once."""
        if not job.lock_lost:
            job.lock_lost = True
            error = LockLost(job.id, self._worker, job.claim)
            log.warning("%s", error)
            self._hooks.fire("lock-lost", job, error)

    def look(self) -> None:
        """There may be something to take: make a trip."""
        self._look = True
        self._kick.set()

    async def run(self) -> None:
        """Pump until `stop_taking` was called and everything is settled."""
        loops = [asyncio.create_task(self._pump(lane), name="qlab-lane") for lane in self._lanes]
        try:
            await asyncio.gather(*loops)
        finally:
            await end(loops)

    async def _pump(self, lane: _Lane) -> None:
        """The first lane goes on to the end, and alone, so that jobs are given back in their order."""
        failures = 0
        while self.taking or (not self.idle and (lane.trip or lane is self._lanes[0])):
            if not (self._look or self._ended or lane.trip):
                await self._wait()
                continue
            try:
                await self._step(lane, -(-self._concurrency // len(self._lanes)))
                failures = 0
            except (RedisUnavailable, ResponseError, RedisError) as error:
                self._report(error)
                failures += 1
                await pause(failures)
        self._kick.set()  # the other lane may wait for what happened in this one

    async def step(self) -> int:
        """Make one trip; return how many jobs it took. A trip that got no reply is made again as it was."""
        return await self._step(self._lanes[0], MOST)

    async def _step(self, lane: _Lane, most: int) -> int:
        if self._limiter is not None:
            await self._limiter.store(self._connection)
            self._limiter = None
        if lane.trip is None:
            self._number += 1
            settling, self._ended = self._ended[:MOST], self._ended[MOST:]
            lane.trip = _Trip(self._number, settling, min(self._room(len(settling)), most, MOST))
            self._look = False
        trip, failures = lane.trip, self._failures
        due, outcomes, taken, tick = await self._connection.call(
            "settle_and_take", [word for one in trip.settlements for word in one],
            on=lane.client, token=self._token, worker=self._worker, lock=self._lock_ms,
            trip=f"{trip.number}{lane.name}", want=trip.want, count=len(trip.settlements),
        )  # fmt: skip
        lane.trip = None
        if failures == self._failures:  # it left after the last failure of the other lane
            self._reported = False
        if not self.healthy:
            self.healthy = True
            log.info("worker %s is connected to %s", self._worker, self._connection.address)
        self._settled(zip(trip.settlements, outcomes.split(), strict=True))
        taken = json.loads(taken) or []  # an empty list is {} in Lua
        self._accept(taken)
        if len(taken) == trip.want and self._room(len(self._ended)) > 0:
            self.look()  # it took all that it asked for, so there may be more
        self._set_timers(due, tick)
        return len(taken)

    def _unsettled(self) -> list[Settlement]:
        return self._ended + [one for lane in self._lanes if lane.trip for one in lane.trip.settlements]

    def _asked_for(self) -> int:
        """Jobs that may be on their way to us."""
        return sum(lane.trip.want for lane in self._lanes if lane.trip)

    def _settled(self, outcomes: Iterable[tuple[Settlement, str]]) -> None:
        for settlement, outcome in outcomes:
            job = self.held.pop((settlement.job_id, settlement.claim))
            if outcome == "lock-lost":
                self.lost(job)
            elif settlement.kind in ("completed", "failed", "retrying"):
                self._hooks.fire(settlement.kind, job, settlement.text)

    def _accept(self, taken: list[Any]) -> None:
        jobs = []
        if taken and not self._running:
            self._alone = False
        for job_id, claim, stored in taken:
            stored.update(state="active", worker=self._worker, claim=claim)
            job = Job(JobRecord.from_hash(job_id, stored), self._connection, holder=self._holder)
            self.held[job_id, job.claim] = job
            jobs.append(job)
        comes_alone = bool(taken) and "alone" in taken[0][2]
        self._alone = self._alone or comes_alone
        self._running += len(jobs)
        if comes_alone and self._running + self._asked_for() > 1:
            self.ended(jobs[0], put_back(jobs[0]))
        else:
            self.inbox.put(jobs)

    def _set_timers(self, due: int, tick: int) -> None:
        """Alarms are only brought forward: the older of two replies may come last. One more costs a trip."""
        loop = asyncio.get_running_loop()
        for ms, action in ((due, self.look), (tick, self.tick_due.set)):
            timer, at = self._timers.get(action), loop.time() + (ms + 1) / 1000
            if ms >= 0 and not (timer and loop.time() < timer.when() <= at):
                if timer:
                    timer.cancel()
                self._timers[action] = loop.call_at(at, action)

    def _room(self, settling: int) -> int:
        """Free slots once so many are settled, whichever lane comes first. None while a job runs that must be
        alone, or until the others have ended for it."""
        trips = [lane.trip for lane in self._lanes if lane.trip]
        if not self.taking or (self._alone and (self._running or trips)):
            return 0
        coming = sum(max(0, trip.want - len(trip.settlements)) for trip in trips)
        return self._concurrency - len(self.held) + settling - coming

    async def _wait(self) -> None:
        """Sleep until a job has ended, a token came, or a delayed job is due."""
        await asyncio.sleep(0)  # jobs that wait for nothing have ended by then
        if self._kick.is_set():
            self._kick.clear()
            return
        if self._room(0) and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch(), name="qlab-wake")
        await self._kick.wait()
        self._kick.clear()

    async def _watch(self) -> None:
        try:
            await self._connection.command("BLPOP", self._connection.keys["wake"], BLOCK, on=self._blocker)
        except (RedisUnavailable, RedisError):
            self.healthy = False  # the trip that follows reports it
        self.look()

    async def beat_for_ever(self) -> None:
        """Ask Redis something while no slot is free: nothing else is on its way then that could fail."""
        while True:
            await asyncio.sleep(BEAT)
            if self.healthy and (self._watching is None or self._watching.done()):
                try:
                    async with asyncio.timeout(BEAT_LIMIT):
                        await self._connection.command("PING")
                except (RedisUnavailable, RedisError, TimeoutError):
                    self.healthy = False
                    self.look()

    def _report(self, error: Exception) -> None:
        if isinstance(error, SchemaMismatch):
            raise error
        self.healthy = False
        self._failures += 1
        if not self._reported:
            self._reported = True
            log.error("worker %s: %s; trying again until it works", self._worker, error)
            self._hooks.fire("error", error)

    async def close(self) -> None:
        """Close the connections."""
        for timer in self._timers.values():
            timer.cancel()
        if self._watching is not None:
            await end([self._watching])
        for lane in self._lanes:
            await lane.client.aclose()
        await self._blocker.aclose()
