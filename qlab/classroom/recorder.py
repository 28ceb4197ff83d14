"""Watch a queue while a lesson runs and write down what happened, from several witnesses.

The queue's event stream tells who took, settled and lost what; the deadlines in the ``active`` set show each
renewal and each lease that ran out; processes report their start and end; the provider reports money.  None
of it is told by the worker under observation, so a worker cannot look better than it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from qlab.classroom.processes import LabError
from qlab.classroom.story import BROKER, Event, in_order
from qlab.classroom.texts import text
from qlab.classroom.timeline import Timeline
from qlab.keys import Keys

POLL = 0.02
"""Seconds between two looks at the queue."""

_PLAIN = {
    "added": "added",
    "completed": "completed",
    "failed": "failed",
    "retrying": "retried",
    "lock-lost": "lock-lost",
}


@dataclass
class _Lease:
    job: int
    claim: int
    lane: str
    deadline: float = 0.0  # seconds on the server's clock; 0 until first seen


class Recording:
    """What has been seen so far; it grows while its ``lab.record(...)`` block runs."""

    def __init__(self, client: Any, keys: Keys, lane_of: Callable[[str], str]) -> None:
        self._client, self._keys, self._lane_of = client, keys, lane_of
        self._events: list[Event] = []
        self._jobs: dict[str, int] = {}
        self._leases: dict[str, _Lease] = {}
        self._position = "0-0"
        self._start = self._ahead = 0.0  # server's clock at the start; how far it is ahead of ours
        self._finished = False
        self.known: dict[str, object] | None = None
        """What a lesson wants to keep beside the run, such as the broker's view at one moment."""

    async def begin(self) -> None:
        """Remember where the stream ends and what time it is on the server."""
        newest = await self._client.xrevrange(self._keys["events"], count=1)
        if newest:
            self._position = newest[0][0]
        before = time.time()
        seconds, micros = await self._client.time()
        after = time.time()
        server = int(seconds) + int(micros) / 1e6
        if not before - 0.001 <= server <= after + 0.001:  # another machine: its clock is not ours
            self._ahead = server - (before + after) / 2
        self._start = server

    async def watch(self) -> None:
        """Look at the queue until :meth:`finish` is called."""
        while not self._finished:
            await self.look()
            await asyncio.sleep(POLL)

    def finish(self) -> None:
        """Let ``watch`` end.  Cancelling it is not enough: the Redis client may swallow a cancellation."""
        self._finished = True

    async def look(self) -> None:
        """Read what is new, stream and deadlines as of one moment."""
        async with self._client.pipeline(transaction=True) as both:
            both.xrange(self._keys["events"], min=f"({self._position}", count=1000)
            both.zrange(self._keys["active"], 0, 200, withscores=True)
            both.time()
            entries, active, (seconds, micros) = await both.execute()
        fresh = {job for _, fields in entries if (job := await self._stream_event(fields))}
        if entries:
            self._position = entries[-1][0]
        self._deadlines(dict(active), fresh, int(seconds) + int(micros) / 1e6)

    async def _stream_event(self, fields: dict[str, str]) -> str | None:
        """Note one entry of the stream; return the job's id if it was taken just now."""
        kind, job_id, at = fields["event"], fields["job"], int(fields["at"]) / 1000
        job = self._jobs.setdefault(job_id, len(self._jobs) + 1)
        claim = int(fields.get("claim") or 0)
        lane = self._lane_of(fields["worker"]) if fields.get("worker") else BROKER
        if kind == "active":
            self._leases[job_id] = _Lease(job, claim, lane)
            self._note(at, "taken", lane, job, claim)
            return job_id
        if kind == "stalled":
            if lease := self._leases.pop(job_id, None):
                self._note(min(lease.deadline or at, at), "expired", lease.lane, job, lease.claim)
            self._note(at, "stalled", BROKER, job, claim)
        elif kind in _PLAIN:
            note = await self._reason(job_id) if kind == "failed" else ""
            self._note(at, _PLAIN[kind], lane, job, claim, note)
            if kind != "lock-lost":
                self._leases.pop(job_id, None)
        return None

    def _deadlines(self, active: dict[str, float], fresh: set[str], now: float) -> None:
        for job_id, score in active.items():
            lease, deadline = self._leases.get(job_id), score / 1000
            if lease is None:
                continue
            if job_id not in fresh and lease.deadline and deadline > lease.deadline:
                self._note(now, "renewed", lease.lane, lease.job, lease.claim)
            lease.deadline = deadline

    async def _reason(self, job_id: str) -> str:
        return await self._client.hget(self._keys.job(job_id), "failed_reason") or ""

    def witness(self, kind: str, lane: str, note: str, at: float) -> None:
        """Write down what a process or the provider reports; ``at`` is on this machine's clock."""
        self._note(at + self._ahead, kind, lane, note=note)

    def _note(self, at: float, kind: str, lane: str, job: int = 0, claim: int = 0, note: str = "") -> None:
        self._events.append(Event(round(at - self._start, 4), kind, lane, job, claim, note))

    # --- what a lesson asks -------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the recording began."""
        return time.time() + self._ahead - self._start

    @property
    def events(self) -> list[Event]:
        """Everything seen so far, in order."""
        return in_order(self._events)

    def count(self, kind: str, lane: str | None = None) -> int:
        """How many events of a kind there were, on one lane or on all."""
        return sum(event.kind == kind and lane in (None, event.lane) for event in self._events)

    @property
    def counts(self) -> dict[str, int]:
        """How often the handler started, money was taken, an ACK was accepted, and an ACK was refused."""
        return {
            "runs": self.count("taken"),
            "charges": self.count("effect"),
            "acks": self.count("completed"),
            "refused": self.count("lock-lost"),
            "stalled": self.count("stalled"),
        }

    def tally(self, *names: str) -> dict[str, int]:
        """Some of the ``counts``, in the order asked for."""
        return {name: self.counts[name] for name in names}

    def at(self, kind: str, lane: str | None = None, nth: int = 1) -> float:
        """Seconds from the start of the recording to the nth such event.  LabError when there was none."""
        found = [event.at for event in self.events if event.kind == kind and lane in (None, event.lane)]
        if len(found) < nth:
            raise self._not_seen(kind, lane, 0)
        return found[nth - 1]

    def starts(self) -> list[tuple[float, str]]:
        """When a handler started (seconds from the beginning of the recording) and on which lane."""
        return [(event.at, event.lane) for event in self.events if event.kind == "taken"]

    async def seen(self, kind: str, lane: str | None = None, *, times: int = 1, within: float = 15.0) -> None:
        """Wait until such an event has been seen ``times`` times.  LabError after ``within`` seconds."""
        try:
            async with asyncio.timeout(within):
                while self.count(kind, lane) < times:
                    await asyncio.sleep(POLL / 2)
        except TimeoutError:
            raise self._not_seen(kind, lane, within) from None

    def _not_seen(self, kind: str, lane: str | None, waited: float) -> LabError:
        seen = ", ".join(f"{event.lane} {event.kind}" for event in self.events) or text("lab.nothing_seen")
        what = f"{lane} {kind}" if lane else kind
        return LabError(text("lab.not_seen", seconds=f"{waited:g}", what=what, seen=seen))

    def timeline(self, title: str, *, renewals: Collection[str] = (), job: int | None = None) -> Timeline:
        """The picture of what has been seen; ``title`` is one line.

        Renewals are drawn for the lanes named (``"AB"``): where they are not the point, a slow machine must
        not add any to a stored picture.  ``job=1`` leaves out what happened to other jobs than the first.
        """
        drawn = [event for event in self._events if event.kind != "renewed" or event.lane in renewals]
        drawn = [event for event in drawn if job is None or event.job in (0, job)]
        return Timeline(drawn, title)

    def __repr__(self) -> str:
        return f"Recording({self.counts})"
