"""Schedules: one job for each nominal tick, whatever the number of processes.

A schedule is a hash and its next nominal tick, the score in the sorted set `schedules`. Whoever finds it
due computes the tick after it and asks the script `tick` to settle it; the script does so only if the
nominal tick is still the one that was seen, so the first one wins and the others do nothing.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from qlab.connection import Connection
from qlab.cron import check_cron, next_cron_tick, next_interval_tick
from qlab.errors import RedisUnavailable
from qlab.new_job import NewJob
from qlab.retry import Seconds, milliseconds

log = logging.getLogger("qlab.worker")

Missed = Literal["skip", "once", "all"]
GRACE_MS = 60_000
"""A single tick that is later than this (or than half the interval) counts as missed."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is stored. `every` and `anchor` are milliseconds, `next` is the next tick in ms."""

    id: str
    name: str
    data: str
    pattern: str | None = None
    tz: str | None = None
    every: int | None = None
    anchor: int = 0
    missed: Missed = "once"
    limit: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    spec: str = ""
    next: int = 0
    count: int = 0

    def tick_after(self, moment: int) -> int:
        """The first nominal tick later than `moment` (ms)."""
        if self.pattern is not None:
            return next_cron_tick(self.pattern, self.tz or "", moment)
        return next_interval_tick(self.anchor, self.every or 1, moment)

    def to_run(self, nominal: int, now: int) -> list[int]:
        """The nominal ticks from `nominal`, which is due, up to `now` that get a job, by the policy."""
        following = self.tick_after(nominal)
        if following > now:
            late = now - nominal
            on_time = late <= min(GRACE_MS, (following - nominal) // 2)
            return [nominal] if on_time or self.missed != "skip" else []
        if self.missed == "skip":
            return []
        span = (following - nominal) * self.limit
        while True:  # look back from now, further each time: a year may hold millions of ticks
            all_of_them = now - span <= nominal
            latest, tick = ([nominal], nominal) if all_of_them else ([], now - span)
            while (tick := self.tick_after(tick)) <= now:
                latest.append(tick)
            if all_of_them or len(latest) >= self.limit:
                return latest[-self.limit :]
            span *= 4

    def fields(self) -> list[Any]:
        """As the hash of the schedule keeps them."""
        stored = {
            "name": self.name, "data": self.data, "pattern": self.pattern, "tz": self.tz, "every": self.every,
            "anchor": self.anchor, "missed": self.missed, "limit": self.limit,
            "options": json.dumps(self.options),
        }  # fmt: skip
        return [word for pair in stored.items() if pair[1] is not None for word in pair]

    @classmethod
    def from_hash(cls, schedule_id: str, stored: dict[str, str], next_tick: int) -> Schedule:
        """The schedule of a hash as Redis gives it."""
        every = stored.get("every")
        return cls(
            schedule_id, stored["name"], stored["data"], stored.get("pattern"), stored.get("tz"),
            None if every is None else int(every), int(stored["anchor"]),
            cast(Missed, stored["missed"]),
            int(stored["limit"]), json.loads(stored["options"]), stored["spec"], next_tick,
            int(stored["count"]),
        )  # fmt: skip


def make(
    schedule_id: str, template: NewJob, *, pattern: str | None, tz: str | None, every: Seconds | None,
    missed: Missed, limit: int, now: int,
) -> Schedule:  # fmt: skip
    """Check a schedule. Raises ValueError for what can not tick."""
    if (pattern is None) == (every is None):
        raise ValueError("a schedule has either a cron pattern (with tz) or every=, not both and not none")
    if pattern is not None:
        check_cron(pattern, tz)
    elif tz is not None:
        raise ValueError("tz belongs to a cron pattern; every= counts seconds, which are the same everywhere")
    interval = None if every is None else milliseconds(every, "every")
    if interval is not None and interval < 1:
        raise ValueError("every must be more than 0 seconds")
    if missed not in ("skip", "once", "all"):
        raise ValueError(f"missed must be 'skip', 'once' or 'all', not {missed!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
        raise ValueError(f"limit must be a whole number from 1 to 1000, not {limit!r}")
    kept = limit if missed == "all" else 1
    spec = json.dumps([template.name, template.data, template.options, pattern, tz, interval, missed, kept])
    return Schedule(
        schedule_id, template.name, template.data, pattern, tz, interval, now, missed, kept, template.options,
        spec,
    )  # fmt: skip


async def run_due(connection: Connection) -> int:
    """Settle every tick that is due; return how many this call settled."""
    now, due = await connection.call("due_schedules")
    settled = 0
    for schedule_id, nominal, flat in due:
        stored = dict(zip(flat[::2], flat[1::2], strict=True))
        try:
            settled += await _settle(connection, Schedule.from_hash(schedule_id, stored, int(nominal)), now)
        except (RedisUnavailable, OSError):
            raise
        except Exception as error:
            log.error("schedule %s of queue %s can not tick: %s", schedule_id, connection.keys.queue, error)
    return settled


async def _settle(connection: Connection, schedule: Schedule, now: int) -> int:
    ticks = schedule.to_run(schedule.next, now)
    words: list[Any] = []
    for tick in ticks:
        job = NewJob.for_tick(schedule.id, tick, schedule.name, schedule.data, schedule.options)
        words += job.arguments()
    following = schedule.tick_after(now)
    settled: int = await connection.call(
        "tick", words, id=schedule.id, spec=schedule.spec, nominal=schedule.next, next=following
    )
    return settled
