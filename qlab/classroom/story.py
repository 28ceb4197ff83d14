"""What happened in a run, as plain data: events, and what they add up to.

An :class:`Event` is one fact seen by the recorder.  :func:`fold` turns a list of them into attempts (a
worker runs a job), leases (the broker's view of the same claim) and marks.  Nothing here knows about
pictures, clocks or Redis, so a picture can be tested from a list typed by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BROKER = "broker"
KINDS = frozenset({
    "started", "added", "taken", "renewed", "effect", "expired", "stalled", "completed", "failed", "retried",
    "lock-lost", "died", "paused", "resumed", "stopped",
})  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One fact: ``at`` in seconds since the recording began, ``lane`` a worker's letter or ``"broker"``."""

    at: float
    kind: str
    lane: str = BROKER
    job: int = 0
    claim: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of event {self.kind!r}; known are {', '.join(sorted(KINDS))}")


@dataclass
class Attempt:
    """One run of a job by one worker.  Positions are indexes into the events; None means still open."""

    lane: str
    job: int
    claim: int
    start: int
    end: int | None = None
    how: str = ""  # completed | failed | lock-lost | died
    unlocked: int | None = None  # from here on it ran without holding the lock


@dataclass
class Lease:
    """The broker's side of one claim: from taken until settled, expired or taken away."""

    owner: str
    job: int
    claim: int
    start: int
    end: int | None = None
    how: str = ""  # completed | failed | expired
    renewals: list[int] = field(default_factory=list)
    silent: int | None = None  # the last sign of life before it ran out


@dataclass
class Story:
    """Everything a picture or a sentence needs to know about a run."""

    events: list[Event]
    attempts: list[Attempt] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    pauses: list[tuple[str, int, int | None]] = field(default_factory=list)  # lane, from, to

    @property
    def workers(self) -> list[str]:
        """The lanes of workers in alphabetical order."""
        return sorted({e.lane for e in self.events} - {BROKER})

    @property
    def jobs(self) -> int:
        """How many different jobs the events speak of."""
        return len({e.job for e in self.events if e.job})

    def attempt(self, lane: str, at: int) -> Attempt | None:
        """The attempt that was open on this lane when event number ``at`` happened."""
        for attempt in reversed(self.attempts):
            if attempt.lane == lane and attempt.start <= at and (attempt.end is None or at <= attempt.end):
                return attempt
        return None


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sort by time, except that no effect or end of an attempt comes before the worker took the job.

    The facts come from several observers (event stream, provider, process table), whose stamps may differ by
    a fraction of a millisecond; cause before effect is certain, the stamps are not.
    """
    held: dict[str, list[Event]] = {}
    taken: set[str] = set()
    out: list[Event] = []
    for event in sorted(events, key=lambda e: e.at):
        if event.kind == "effect" and event.lane not in taken:
            held.setdefault(event.lane, []).append(event)
            continue
        out.append(event)
        if event.kind == "taken":
            taken.add(event.lane)
            out.extend(held.pop(event.lane, ()))
    return out + [event for late in held.values() for event in late]


def by_cause(events: Sequence[Event]) -> list[Event]:
    """The order of a static picture: what no clock decides, so the same run gives the same picture."""
    return with_renewals_grouped(_expired_when_noticed(events))


def _expired_when_noticed(events: Sequence[Event]) -> list[Event]:
    """Put the end of a lease right before the broker sees it.

    Whether a lease ran out just before or just after another worker came up is up to the machine.
    """
    out: list[Event] = []
    over: dict[int, Event] = {}
    for event in events:
        if event.kind == "stalled" and event.job in over:
            out.append(over.pop(event.job))
        if event.kind == "expired":
            over[event.job] = event
        else:
            out.append(event)
    return out + list(over.values())


_ENDS = ("completed", "failed", "retried", "expired")
"""What ends a lease."""


def with_renewals_grouped(events: Sequence[Event]) -> list[Event]:
    """Keep one renewal for each lease that had any, right before what ends the lease or silences its owner.

    How many renewals there were, and between which other events, is up to the clock; that there were some is
    not, and the same run has to give the same picture.
    """
    out: list[Event] = []
    renewed: dict[tuple[str, int, int], Event] = {}
    over: set[tuple[int, int]] = set()  # a renewal may be on its way while its job ends
    for event in events:
        if event.kind == "renewed":
            if (event.job, event.claim) not in over:
                renewed[event.lane, event.job, event.claim] = event
            continue
        if event.kind in _ENDS:
            over.add((event.job, event.claim))
        for key in list(renewed):
            if _closes(event, *key):
                out.append(renewed.pop(key))
        out.append(event)
    return out + list(renewed.values())


def _closes(event: Event, lane: str, job: int, claim: int) -> bool:
    if event.kind in ("died", "paused"):
        return event.lane == lane
    return event.kind in _ENDS and (event.job, event.claim) == (job, claim)


def fold(events: Iterable[Event]) -> Story:
    """Add the events up, in the order given."""
    story = Story(list(events))
    for index, event in enumerate(story.events):
        _STEPS.get(event.kind, _nothing)(story, index, event)
    return story


def _nothing(story: Story, index: int, event: Event) -> None:
    """Marks (started, added, effect, stopped) begin and end nothing."""


def _taken(story: Story, index: int, event: Event) -> None:
    story.attempts.append(Attempt(event.lane, event.job, event.claim, index))
    story.leases.append(Lease(event.lane, event.job, event.claim, index))


def _lease(story: Story, event: Event) -> Lease | None:
    for lease in reversed(story.leases):
        if lease.job == event.job and lease.end is None and event.claim in (0, lease.claim):
            return lease
    return None


def _renewed(story: Story, index: int, event: Event) -> None:
    if lease := _lease(story, event):
        lease.renewals.append(index)
        lease.silent = index


def _expired(story: Story, index: int, event: Event) -> None:
    if lease := _lease(story, event):
        lease.end, lease.how = index, "expired"
        for attempt in story.attempts:
            if (attempt.job, attempt.claim) == (
                lease.job,
                lease.claim,
            ) and attempt.end is None:
                attempt.unlocked = index


def _settled(story: Story, index: int, event: Event) -> None:
    if event.lane == BROKER:  # the broker gave up on the job; nobody's attempt ends by it
        return
    _end_attempt(story, index, event)
    if lease := _lease(story, event):
        lease.end, lease.how = (
            index,
            "completed" if event.kind == "completed" else "failed",
        )


def _end_attempt(story: Story, index: int, event: Event) -> None:
    for attempt in story.attempts:
        same = (attempt.lane, attempt.job, attempt.claim) == (
            event.lane,
            event.job,
            event.claim,
        )
        if same and attempt.end is None:
            attempt.end, attempt.how = index, event.kind


def _died(story: Story, index: int, event: Event) -> None:
    for attempt in story.attempts:
        if attempt.lane == event.lane and attempt.end is None:
            attempt.end, attempt.how = index, "died"
    _falls_silent(story, index, event.lane)


def _paused(story: Story, index: int, event: Event) -> None:
    story.pauses.append((event.lane, index, None))
    _falls_silent(story, index, event.lane)


def _falls_silent(story: Story, index: int, lane: str) -> None:
    for lease in story.leases:
        if lease.owner == lane and lease.end is None:
            lease.silent = index


def _resumed(story: Story, index: int, event: Event) -> None:
    for number, (lane, start, end) in enumerate(story.pauses):
        if lane == event.lane and end is None:
            story.pauses[number] = (lane, start, index)


_STEPS = {
    "taken": _taken,
    "renewed": _renewed,
    "expired": _expired,
    "completed": _settled,
    "failed": _settled,
    "retried": _settled,
    "lock-lost": _end_attempt,
    "died": _died,
    "paused": _paused,
    "resumed": _resumed,
}
