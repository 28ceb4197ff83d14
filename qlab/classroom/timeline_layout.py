"""Where everything in a timeline goes: columns, lanes, tracks and labels.  Plain numbers, no SVG.

The horizontal axis is the order of events: each event has a column, and columns are as far apart as the
labels need, so that no two texts on one line touch, however many events there are.  With ``now=seconds`` (the
live view) the axis is the time instead and labels that do not fit are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qlab.classroom.story import BROKER, Attempt, Event, Lease, Story, by_cause, fold
from qlab.classroom.timeline_text import label, text_width, title_width, word

LEFT, TOP, GAP = 96.0, 58.0, 8.0
APART = 12.0  # pixels between two texts on one line, at least
ROW, BAR, LEASE = 18.0, 26.0, 10.0  # heights: a line of labels, an attempt, a lease
STEP, MARGIN = 34.0, 24.0
Row = tuple[str, str]  # a line of labels: which lane, and "away", "facing", "bar0" or "lease0"
LIVE_WIDTH, LIVE_SPAN = 860.0, 4.0  # the live view shows at least these seconds


@dataclass(frozen=True)
class Label:
    """A text with the box that it needs; an empty text only reserves the room for a line or a symbol."""

    text: str
    x: float  # left edge
    y: float  # baseline
    width: float
    strong: bool = False
    on_bar: bool = False


@dataclass(frozen=True)
class Wish:
    """A label before its column is known: ``offset`` is where its left edge lies from the column."""

    row: Row
    text: str
    width: float
    offset: float
    strong: bool = False


@dataclass
class Lane:
    """One horizontal band: a worker's or the broker's."""

    name: str
    top: float
    tracks: int
    away: float  # baseline of the line of labels away from the broker
    facing: float  # baseline of the line of labels that faces the broker (on the broker: its own marks)
    first: float  # top of the first track
    pitch: float
    bottom: float

    def track(self, number: int) -> float:
        """The top of a track."""
        return self.first + number * self.pitch


@dataclass
class Layout:
    """A story with a place for everything in it."""

    story: Story
    now: float | None = None  # seconds; None means that the axis is the order of events
    width: float = 0.0
    height: float = 0.0
    xs: list[float] = field(default_factory=list)
    lanes: dict[str, Lane] = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list)
    attempt_track: dict[int, int] = field(default_factory=dict)
    lease_track: dict[int, int] = field(default_factory=dict)

    def x(self, index: int | None) -> float:
        """The column of an event; None stands for "not over yet"."""
        if index is not None:
            return self.xs[index]
        return self.width - MARGIN if self.now is None else self.time(self.now)

    def time(self, at: float) -> float:
        """Where a time in seconds lies on the axis of the live view."""
        room = LIVE_WIDTH - LEFT - 5 * MARGIN
        return LEFT + MARGIN + room * max(at, 0.0) / max(self.now or 0.0, LIVE_SPAN)


def lay_out(events: Sequence[Event], *, now: float | None = None, title: str = "") -> Layout:
    """Place a run: by order of events, or by time up to ``now`` seconds; wide enough for its title."""
    layout = Layout(fold(by_cause(events) if now is None else events), now)
    story = layout.story
    layout.attempt_track = _tracks([(a.start, a.end, a.lane) for a in story.attempts])
    layout.lease_track = _tracks([(lease.start, lease.end, BROKER) for lease in story.leases])
    _place_lanes(layout)
    wishes = [_wishes(layout, index, event) for index, event in enumerate(story.events)]
    if now is None:
        _columns_by_order(layout, wishes)
    else:
        layout.width, layout.xs = LIVE_WIDTH, [layout.time(event.at) for event in story.events]
    layout.width = max(layout.width, title_width(title))
    _place_labels(layout, wishes, drop=now is not None)
    return layout


def _tracks(spans: list[tuple[int, int | None, str]]) -> dict[int, int]:
    """Give each span the lowest track of its lane that is free when it begins."""
    busy: dict[tuple[str, int], float] = {}
    chosen = {}
    for number, (start, end, lane) in enumerate(spans):
        track = 0
        while busy.get((lane, track), -1.0) > start:
            track += 1
        busy[lane, track] = float("inf") if end is None else end
        chosen[number] = track
    return chosen


def _place_lanes(layout: Layout) -> None:
    workers = layout.story.workers
    top = TOP
    for name in [*workers[:1], BROKER, *workers[1:]]:
        lane = _lane(layout, name, top, above=bool(workers) and name == workers[0])
        layout.lanes[name] = lane
        top = lane.bottom + GAP
    layout.height = top


def _lane(layout: Layout, name: str, top: float, *, above: bool) -> Lane:
    if name == BROKER:
        tracks = 1 + max(layout.lease_track.values(), default=0)
        pitch = 20 + LEASE + ROW
        marks = top + tracks * pitch + 12
        return Lane(name, top, tracks, marks, marks, top + 16, pitch, marks + 8)
    used = [layout.attempt_track[i] for i, a in enumerate(layout.story.attempts) if a.lane == name]
    tracks = 1 + max(used, default=0)
    pitch = BAR + 4
    first = top + ROW + 3
    below = first + tracks * pitch + 10
    upper, lower = top + 14, below
    return Lane(
        name, top, tracks, upper if above else lower, lower if above else upper, first, pitch, below + 8
    )


def _wishes(layout: Layout, index: int, event: Event) -> list[Wish]:
    """The labels (and the room for symbols) that one event asks for."""
    said, lane = label(event, layout.story.jobs), event.lane
    away, facing, marks = (lane, "away"), (lane, "facing"), (BROKER, "facing")
    match event.kind:
        case "taken":
            owner = word("lease_of", lane=lane, claim=event.claim)
            attempt, lease = _taken_here(layout, index)
            return [_starts(_bar_row(lane, attempt), said, 6), _starts(_lease_row(lease), owner, 0)]
        case "effect":
            return [_room(_bar_row(lane, _bar(layout, lane, index)), 24)]
        case "died":
            working = layout.story.attempt(lane, index) is not None
            lost = [_room(facing, 8), _starts(facing, word("lost_ack"), 12)] if working else []
            cross = _room(_bar_row(lane, _bar(layout, lane, index)), 26)
            return [_middle(away, said, strong=True), cross, *lost, *_silence(layout, index)]
        case "paused":
            return [_middle(away, said, strong=True), *_silence(layout, index)]
        case "expired" | "renewed":
            row = _lease_row(_lease_track(layout, index))
            if event.kind == "renewed" or _explained(layout, index):
                return [_middle(row, said)]
            return [_ends(row, word("silent_to_the_end"), 4)]
        case "stalled":
            row = _lease_row(stalled_track(layout, event))
            return [_room(row, 24), _ends(marks, said, -6, strong=True)]
        case "completed" | "failed" | "retried" | "lock-lost" if lane != BROKER:
            crossed = [_room(marks, 8), _room(_lease_row(_lease_track(layout, index)), 12)]
            return [_room(facing, 8), _starts(facing, said, 7, strong=True), *crossed]
        case "added" | "failed" | "retried":
            return [_middle(marks, said, strong=event.kind == "failed")]
        case "stopped":
            return []
    return [_middle(away, said)]


def _silence(layout: Layout, index: int) -> list[Wish]:
    """The remark on each lease whose owner falls silent here."""
    leases = enumerate(layout.story.leases)
    tracks = [layout.lease_track[number] for number, lease in leases if lease.silent == index]
    return [_starts(_lease_row(track), word("silent"), 4) for track in tracks]


def _bar_row(lane: str, track: int) -> Row:
    return (lane, f"bar{track}")


def _lease_row(track: int) -> Row:
    return (BROKER, f"lease{track}")


def _starts(row: Row, text: str, offset: float, *, strong: bool = False) -> Wish:
    return Wish(row, text, text_width(text, strong=strong), offset, strong)


def _ends(row: Row, text: str, offset: float, *, strong: bool = False) -> Wish:
    width = text_width(text, strong=strong)
    return Wish(row, text, width, offset - width, strong)


def _middle(row: Row, text: str, *, strong: bool = False) -> Wish:
    width = text_width(text, strong=strong)
    return Wish(row, text, width, -width / 2, strong)


def _room(row: Row, width: float) -> Wish:
    return Wish(row, "", width, -width / 2)


def _taken_here(layout: Layout, index: int) -> tuple[int, int]:
    attempts = layout.story.attempts
    number = next(i for i, attempt in enumerate(attempts) if attempt.start == index)
    return layout.attempt_track[number], layout.lease_track[number]  # attempts and leases begin in pairs


def _bar(layout: Layout, lane: str, index: int) -> int:
    for number, attempt in enumerate(layout.story.attempts):
        if attempt is layout.story.attempt(lane, index):
            return layout.attempt_track[number]
    return 0


def _lease_track(layout: Layout, index: int) -> int:
    for number, lease in enumerate(layout.story.leases):
        if lease.end == index or index in lease.renewals:
            return layout.lease_track[number]
    return 0


def stalled_track(layout: Layout, event: Event) -> int:
    """The track of the lease whose end makes this job stalled."""
    ended = [
        n for n, lease in enumerate(layout.story.leases) if lease.job == event.job and lease.how == "expired"
    ]
    before = [n for n in ended if event.claim in (0, layout.story.leases[n].claim)]
    return layout.lease_track[before[-1]] if before else 0


def _explained(layout: Layout, index: int) -> bool:
    """Whether the picture already says what came before the silence: a death, a pause, the last renewals."""
    return any(lease.end == index and lease.silent is not None for lease in layout.story.leases)


def _columns_by_order(layout: Layout, wishes: list[list[Wish]]) -> None:
    edges: dict[Row, float] = {}
    x = LEFT + MARGIN - STEP
    for asked in wishes:
        x += STEP
        for wish in asked:
            x = max(x, edges.get(wish.row, LEFT + 2) + APART - wish.offset)
        for wish in asked:
            edges[wish.row] = x + wish.offset + wish.width
        layout.xs.append(x)
    layout.width = max([x + STEP, LEFT + 420, *edges.values()]) + MARGIN


def _baseline(layout: Layout, row: Row) -> float:
    lane = layout.lanes[row[0]]
    if row[1] == "away":
        return lane.away
    if row[1] == "facing":
        return lane.facing
    if row[1].startswith("bar"):
        return lane.track(int(row[1][3:])) + BAR / 2 + 4.5
    return lane.track(int(row[1][5:])) + LEASE + 14


def _place_labels(layout: Layout, wishes: list[list[Wish]], *, drop: bool) -> None:
    """Turn wishes into labels; ``drop`` leaves out those that would cover a symbol or an earlier label."""
    asked = [(x, wish) for x, wanted in zip(layout.xs, wishes, strict=True) for wish in wanted]
    asked.sort(key=lambda pair: bool(pair[1].text))  # symbols are there in any case: they come first
    used: list[tuple[Row, float, float]] = []
    for x, wish in asked:
        left = max(LEFT + 2, min(x + wish.offset, layout.width - 10 - wish.width))
        right = left + wish.width
        if drop and wish.text and any(wish.row == row and left < b and a < right for row, a, b in used):
            continue
        used.append((wish.row, left, right))
        on_bar = wish.row[1].startswith("bar")
        layout.labels.append(
            Label(wish.text, left, _baseline(layout, wish.row), wish.width, wish.strong, on_bar)
        )


def lane_of(layout: Layout, thing: Attempt | Lease) -> float:
    """The top of the bar of an attempt or of a lease."""
    if isinstance(thing, Attempt):
        number = layout.story.attempts.index(thing)
        return layout.lanes[thing.lane].track(layout.attempt_track[number])
    return layout.lanes[BROKER].track(layout.lease_track[layout.story.leases.index(thing)])
