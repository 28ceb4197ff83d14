"""Draw a laid-out run as SVG: shape first, colour second, light and dark, nothing from outside the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from qlab.classroom import svg
from qlab.classroom.story import BROKER, Attempt, Lease
from qlab.classroom.timeline_layout import BAR, LEASE, LEFT, LIVE_SPAN, Layout, lane_of, stalled_track
from qlab.classroom.timeline_legend import legend
from qlab.classroom.timeline_symbols import (
    DARK,
    WORKERS,
    bar,
    coin,
    cross,
    cut,
    defs,
    given_up,
    styles,
    triangle,
)
from qlab.classroom.timeline_text import TITLE_LEFT, TITLE_SIZE, lane_name

WIDEST = 848.0
"""Pixels; a wider picture is scaled down, since notebooks cut off what does not fit.

So much is left to a cell's output in JupyterLab on a 1280-pixel screen with the side bar open.
"""


def draw(layout: Layout, title: str, sentences: Iterable[str], *, axis: str) -> str:
    """The whole picture.  ``sentences`` become its text equivalent, ``axis`` says what the axis means."""
    told = " ".join(sentences)
    mark = svg.mark_of(title, told)
    body = "".join(_parts(layout, mark))
    signs, below = legend(layout, {event.kind for event in layout.story.events}, mark)
    opening = svg.opening(title, told, mark, layout.width, below, min(1.0, WIDEST / layout.width))
    return f"{opening}{defs(mark)}{heading(title, axis, layout.width, below)}{body}{signs}</svg>"


def heading(title: str, axis: str, width: float, height: float) -> str:
    """The ground, and on it the title and what the axis means."""
    return (
        f'<rect class="qt-bg" width="{width:.0f}" height="{height:.0f}"/>'
        f'<text class="qt-ink" x="{TITLE_LEFT:.0f}" y="26" font-size="{TITLE_SIZE:.0f}" font-weight="600">'
        f'{escape(title)}</text><text class="qt-mute" x="{TITLE_LEFT:.0f}" y="45">{escape(axis)}</text>'
    )


def _parts(layout: Layout, mark: str) -> Iterable[str]:
    """What is drawn, from the ground up."""
    story = layout.story
    yield from (_lane(layout, name) for name in layout.lanes)
    yield from (_lease(layout, lease, mark) for lease in story.leases)
    yield from (_attempt(layout, attempt, mark) for attempt in story.attempts)
    for lane, start, end in story.pauses:
        y, look = layout.lanes[lane].track(0), styles("", mark)["rest"]
        yield bar(layout.x(start), layout.x(end), y, BAR, look)
    for index, event in enumerate(story.events):
        if symbol := _SYMBOLS.get(event.kind):
            yield symbol(layout, index, mark)
    yield from (_label(layout, number) for number in range(len(layout.labels)))
    if layout.now is not None:
        yield _scale(layout)


def colour(layout: Layout, lane: str) -> str:
    """The colour of a worker."""
    return WORKERS[layout.story.workers.index(lane) % len(WORKERS)]


def _lane(layout: Layout, name: str) -> str:
    lane = layout.lanes[name]
    width, height = layout.width - LEFT - 8, lane.bottom - lane.top
    return (
        f'<rect class="qt-lane" x="{LEFT:.0f}" y="{lane.top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="6"/><text class="qt-ink" x="{LEFT - 10:.0f}" y="{lane.top + height / 2 + 4:.1f}" '
        f'text-anchor="end" font-weight="600">{escape(lane_name(name))}</text>'
    )


def _label(layout: Layout, number: int) -> str:
    label = layout.labels[number]
    if not label.text:
        return ""
    weight = ' font-weight="600"' if label.strong else ""
    ink = f'fill="{DARK}"' if label.on_bar else 'class="qt-ink"'
    return f'<text {ink} x="{label.x:.1f}" y="{label.y:.1f}"{weight}>{escape(label.text)}</text>'


def _lease(layout: Layout, lease: Lease, mark: str) -> str:
    """Solid as long as its owner gave signs of life, dashed while it only runs out."""
    y, look = lane_of(layout, lease), styles(colour(layout, lease.owner), mark)
    start, end = layout.x(lease.start), layout.x(lease.end)
    alive = end
    if lease.how == "expired" or (lease.end is None and lease.silent is not None):
        alive = (start + end) / 2 if lease.silent is None else layout.x(lease.silent)
        if lease.silent in lease.renewals and layout.now is None:
            alive += 18  # past the ticks that stand for all its renewals
    out = bar(start, alive, y, LEASE, look["solid"], round_=5)
    return out + (bar(alive, end, y, LEASE, look["silent"], round_=5) if alive < end else "")


def _attempt(layout: Layout, attempt: Attempt, mark: str) -> str:
    y, look = lane_of(layout, attempt), styles(colour(layout, attempt.lane), mark)
    start, end = layout.x(attempt.start), layout.x(attempt.end)
    held = end if attempt.unlocked is None else min(layout.x(attempt.unlocked), end)
    out = bar(start, held, y, BAR, look["solid"])
    if held < end:
        out += bar(held, end, y, BAR, look["unlocked"])
    if attempt.how == "died":
        out += bar(end, _gone_until(layout, attempt), y, BAR, look["dead"])
    return out


def _gone_until(layout: Layout, attempt: Attempt) -> float:
    """A dead worker's hatching lasts as long as the lease that nobody renews."""
    for lease in layout.story.leases:
        if (lease.job, lease.claim) == (attempt.job, attempt.claim):
            return layout.x(lease.end)
    return layout.x(None)


def _bar_middle(layout: Layout, index: int) -> float:
    event = layout.story.events[index]
    attempt = layout.story.attempt(event.lane, index)
    return (lane_of(layout, attempt) if attempt else layout.lanes[event.lane].track(0)) + BAR / 2


def _coin(layout: Layout, index: int, mark: str) -> str:
    return coin(layout.x(index), _bar_middle(layout, index))


def _towards(layout: Layout, index: int) -> tuple[float, float]:
    """From the edge of a worker's bar to the broker's bar for the same claim."""
    event, broker = layout.story.events[index], layout.lanes[BROKER]
    middle, top = _bar_middle(layout, index), broker.first
    for lease in layout.story.leases:
        if lease.end == index:
            top = lane_of(layout, lease)
    above = layout.lanes[event.lane].top < broker.top
    return (middle + BAR / 2, top - 2) if above else (middle - BAR / 2, top + LEASE + 3)


def _line(x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    return f'<path class="qt-line" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"{more}/>'


def _died(layout: Layout, index: int, mark: str) -> str:
    x, out = layout.x(index), cross(layout.x(index), _bar_middle(layout, index))
    if not layout.story.attempt(layout.story.events[index].lane, index):
        return out
    start, goal = _towards(layout, index)
    stop = start + (goal - start) * 0.55
    return out + _line(x, start, x + 6, stop, ' stroke-dasharray="4 3"') + cut(x + 2, stop - 4)


def _settled(layout: Layout, index: int, mark: str) -> str:
    x = layout.x(index)
    if layout.story.events[index].lane == BROKER:
        return given_up(x, layout.lanes[BROKER].first + LEASE / 2)
    start, goal = _towards(layout, index)
    return _line(x, start, x, goal, f' marker-end="url(#arrow{mark})"')


def _refused(layout: Layout, index: int, mark: str) -> str:
    x, (start, goal) = layout.x(index), _towards(layout, index)
    back = goal + (4 if start > goal else -4)
    return _line(x, start, x, back) + cross(x, back, 5, 3)


def _stalled(layout: Layout, index: int, mark: str) -> str:
    """The triangle, and the way of the job to whoever takes it next."""
    events, x = layout.story.events, layout.x(index)
    top = layout.lanes[BROKER].track(stalled_track(layout, events[index]))
    out = triangle(x, top - 5)
    for later in range(index + 1, len(events)):
        if events[later].kind == "taken" and events[later].job == events[index].job:
            y = _bar_middle(layout, later)
            start, goal = (top - 5, y + BAR / 2) if y < top else (top + 14, y - BAR / 2)
            return out + _line(x + 3, start, layout.x(later), goal, f' marker-end="url(#arrow{mark})"')
    return out


def _renewed(layout: Layout, index: int, mark: str) -> str:
    paint, x = colour(layout, layout.story.events[index].lane), layout.x(index)
    lease = next((lease for lease in layout.story.leases if index in lease.renewals), None)
    y = lane_of(layout, lease) if lease else layout.lanes[BROKER].first
    offsets = (
        (-12, 0, 12) if layout.now is None else (0,)
    )  # by order, one event stands for all renewals of a lease
    ticks = "".join(f"M{x + dx:.1f} {y - 14:.1f}v12" for dx in offsets)
    return f'<path class="qt-line" d="{ticks}" style="stroke:{paint};stroke-width:3"/>'


def _started(layout: Layout, index: int, mark: str) -> str:
    x, y = layout.x(index), _bar_middle(layout, index)
    return f'<path class="qt-ink" d="M{x - 5:.1f} {y - 7:.1f}l12 7l-12 7z"/>'


_SYMBOLS: dict[str, Callable[[Layout, int, str], str]] = {
    "started": _started,
    "renewed": _renewed,
    "effect": _coin,
    "died": _died,
    "stalled": _stalled,
    "completed": _settled,
    "failed": _settled,
    "retried": _settled,
    "lock-lost": _refused,
}


def _scale(layout: Layout) -> str:
    """Seconds below the lanes, for the live view."""
    span = max(layout.now or 0.0, LIVE_SPAN)
    marks = ""
    for second in range(0, int(span) + 1, max(1, round(span / 10))):
        x = layout.time(second)
        marks += _line(x, layout.height - 6, x, layout.height - 1)
        place = f'x="{x:.1f}" y="{layout.height + 10:.1f}" text-anchor="middle"'
        marks += f'<text class="qt-mute" {place}>{second} s</text>'
    return marks
