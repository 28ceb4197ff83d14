"""The legend of a timeline: the signs that this picture uses, each with its word, and no others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

from qlab.classroom.story import BROKER
from qlab.classroom.texts import text
from qlab.classroom.timeline_layout import LEASE, LEFT, Layout
from qlab.classroom.timeline_symbols import WORKERS, bar, coin, cross, cut, given_up, styles, triangle
from qlab.classroom.timeline_text import text_width


def legend(layout: Layout, used: Collection[str], mark: str) -> tuple[str, float]:
    """The legend as SVG, and where the picture ends below it.  ``used`` are the kinds of events drawn."""
    x, y, out = LEFT, layout.height + (8 if layout.now is None else 18), ""
    for name, sample in _samples(layout, used, mark):
        words = text(f"timeline.legend.{name}")
        width = 30 + text_width(words) + 14
        if x + width > layout.width - 8 and x > LEFT:
            x, y = LEFT, y + 22
        said = f'<text class="qt-mute" x="30" y="13">{escape(words)}</text>'
        out += f'<g transform="translate({x:.1f},{y:.1f})">{sample}{said}</g>'
        x += width
    return out, y + 28


def _samples(layout: Layout, used: Collection[str], mark: str) -> Iterator[tuple[str, str]]:
    story, look = layout.story, styles(WORKERS[0], mark)
    if story.leases:
        yield "lease", bar(2, 24, 3, LEASE, look["solid"], round_=5)
    if any(lease.how == "expired" for lease in story.leases):
        yield "dashed", bar(2, 24, 3, LEASE, look["silent"], round_=5)
    if "renewed" in used:
        ticks = f'style="stroke:{WORKERS[0]};stroke-width:3"'
        yield "renewed", f'<path class="qt-line" d="M4 2v12m8 -12v12m8 -12v12" {ticks}/>'
    if "effect" in used:
        yield "effect", coin(13, 8, 9)
    if "died" in used:
        yield "died", cross(13, 8, 7, 3)
    if story.pauses:
        yield "paused", bar(2, 24, 1, 14, look["rest"])
    if any(attempt.unlocked is not None and attempt.how != "died" for attempt in story.attempts):
        yield "unlocked", bar(2, 24, 1, 14, look["unlocked"])
    if "stalled" in used:
        yield "stalled", triangle(13, -2)
    if any(attempt.how == "died" for attempt in story.attempts):
        yield "lost", '<path class="qt-line" d="M2 8h14" stroke-dasharray="4 3"/>' + cut(17, 4)
    if any(event.kind == "failed" and event.lane == BROKER for event in story.events):
        yield "given_up", given_up(13, 8)
    if "lock-lost" in used:
        yield "refused", '<path class="qt-line" d="M2 8h14"/>' + cross(20, 8, 5, 3)
