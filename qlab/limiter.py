"""A limit on how many jobs a queue lends, for all its workers together."""

from __future__ import annotations

from dataclasses import dataclass

from qlab.connection import Connection
from qlab.retry import Seconds, milliseconds


@dataclass(frozen=True, slots=True)
class Limiter:
    """At most `max` jobs start in each window of `duration` seconds.

    The rule is stored with the queue, so a worker that was not given it obeys it too; the latest one
    counts. Windows are fixed: each begins with the first job after the last window ended, so around an
    edge up to 2 * max jobs may start close together. Limited jobs keep their place and their attempts.
    """

    max: int
    duration: Seconds

    def __post_init__(self) -> None:
        if isinstance(self.max, bool) or not isinstance(self.max, int) or not 1 <= self.max <= 10**9:
            raise ValueError(f"max of a limiter must be a whole number of at least 1, not {self.max!r}")
        if milliseconds(self.duration, "duration of a limiter") < 1:
            raise ValueError("duration of a limiter must be more than 0 seconds")

    async def store(self, connection: Connection) -> None:
        """Make it the rule of the queue."""
        rule = ("limit_max", self.max, "limit_ms", milliseconds(self.duration, "duration of a limiter"))
        await connection.command("HSET", connection.keys["meta"], *rule)


async def remove(connection: Connection) -> None:
    """The queue has no limit any more."""
    fields = ("limit_max", "limit_ms", "window_start", "window_count", "limited_until")
    await connection.command("HDEL", connection.keys["meta"], *fields)
