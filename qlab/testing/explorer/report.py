"""What an exploration found: plain frozen data, which can be printed, drawn, stored as JSON and read back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

FAULTS = {"<": "crash before", ">": "crash after", "~": "stall", "!": "error", "?": "reply lost"}
"""The five kinds of fault at an effect, by the character that stands for each in a seed."""

OUTCOMES = ("twice", "lost", "ghost", "half", "stuck", "once")
"""The words that an invariant may answer with, the worst first; only "once" is no failure."""

QUEUE = "queue"
"""The `store` of a step that is no effect: the queue delivered, took an acknowledgement, or gave up."""


@dataclass(frozen=True)
class Step:
    """One thing that happened in a schedule: an effect, or (store "queue") something the queue did."""

    actor: str
    delivery: int
    """0 for the first delivery of the actor's job, 1 for the second, ..."""
    effect: str
    """What was asked for, in short: "INSERT processed_job", "ZADD queue", "CHARGE o1", "COMMIT". On the
    queue: "deliver", "ack", "fail", "dead" (the process), "give up"."""
    fault: str
    """A key of FAULTS, or "." when nothing was made to fail."""
    at: float
    """Seconds on the virtual clock since the schedule began."""
    store: str
    """"postgres", "redis", "provider" or "queue"."""
    result: str
    """What the server answered ("INSERT 0 1"), even if the actor never saw it; empty if it was not asked."""

    @property
    def name(self) -> str:
        """The delivery as seeds name it: A, A', A''."""
        return self.actor + "'" * self.delivery


@dataclass(frozen=True)
class Schedule:
    """One complete run: who moved when, what was made to fail, and the word of the invariant."""

    seed: str
    outcome: str
    faults: int
    switches: int
    steps: tuple[Step, ...]

    @property
    def effects(self) -> tuple[Step, ...]:
        """The steps without those of the queue."""
        return tuple(step for step in self.steps if step.store != QUEUE)

    def trace(self) -> str:
        """The schedule in words, one line a step."""
        lines = [f"seed {self.seed!r} -> {self.outcome}"]
        for step in self.steps:
            happened = step.result
            if step.fault != ".":
                happened = FAULTS[step.fault] + (f" ({step.result})" if step.result else "")
            lines.append(
                f"{step.at:8.1f} s  {step.name:5}{step.store:10}{step.effect:34.34}{happened}".rstrip()
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Row:
    """One effect of the run without faults, and what a single fault there leads to."""

    actor: str
    index: int
    """Position in that run, from 1."""
    effect: str
    outcomes: Mapping[str, str | None]
    """By key of FAULTS; None where that fault cannot happen (an error of a store that has none)."""
    seeds: Mapping[str, str] = field(default_factory=dict)
    """By key of FAULTS: the seed that places the fault here, for `Report.replay`."""


Replay = Callable[[str], Awaitable[Schedule]]


@dataclass(frozen=True)
class Report:
    """The result of `explore`. It never says "proved": it says within which bounds nothing failed."""

    outcomes: Mapping[str, int]
    """How many schedules ended with each word."""
    schedules: int
    seconds: float
    """Real time that it took."""
    faults: int
    switches: int
    """The bounds."""
    complete: bool
    """False when a limit ended the search early."""
    rows: tuple[Row, ...]
    shortest_failure: Schedule | None
    """The failing schedule with the fewest faults, then switches, then moves."""
    digest: str
    """Of all schedules in order: equal digests mean that two explorations saw the same."""
    _replay: Replay | None = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """One line: the shortest failure, or the bounds within which there is none."""
        if self.shortest_failure is not None:
            return f"{self.shortest_failure.outcome}: {self.shortest_failure.seed}"
        bounds = f"{_count(self.faults, 'fault')} and {_count(self.switches, 'switch')}"
        if self.complete:
            return f"no failure within {bounds}"
        return f"no failure in {_count(self.schedules, 'schedule')} within {bounds}; stopped at a limit"

    def table(self) -> str:
        """The rows as text: effect × kind of fault → outcome ("-": that fault cannot happen there)."""
        lines = [f"{'effect':40}" + "".join(f"{name:>14}" for name in FAULTS.values())]
        for row in self.rows:
            cells = "".join(f"{row.outcomes.get(fault) or '-':>14}" for fault in FAULTS)
            lines.append(f"{row.index:3} {row.actor:3} {row.effect:33.33}{cells}")
        return "\n".join(lines)

    async def replay(self, seed: str) -> Schedule:
        """Run one schedule again, with the same handlers on the same lab (which must still be open).

        Raises ValueError for a text that is no seed, ExplorerError when its moves are not possible here.
        """
        if self._replay is None:
            raise ValueError("this report was read from JSON; explore again to replay a seed")
        return await self._replay(seed)

    def to_json(self) -> str:
        """Everything but the ability to replay."""
        stored = dataclasses.asdict(dataclasses.replace(self, _replay=None))
        del stored["_replay"]
        return json.dumps(stored)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The report that `to_json` wrote."""
        stored: dict[str, Any] = json.loads(text)
        stored["rows"] = tuple(Row(**row) for row in stored["rows"])
        if failure := stored["shortest_failure"]:
            failure["steps"] = tuple(Step(**step) for step in failure["steps"])
            stored["shortest_failure"] = Schedule(**failure)
        return cls(**stored)


def worse(one: str | None, other: str | None) -> str | None:
    """The worse of two outcomes; None is no outcome."""
    return min((word for word in (one, other) if word), key=OUTCOMES.index, default=None)


def length(schedule: Schedule) -> tuple[int, int, int, int, str]:
    """Order of "shortest": faults, switches, moves of the seed, effects, and the seed itself."""
    moves = len(schedule.seed.split())
    return schedule.faults, schedule.switches, moves, len(schedule.effects), schedule.seed


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{number} {noun if number == 1 else plural}"
