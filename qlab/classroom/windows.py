"""How many jobs started in which window: what a rate limiter promised, counted afterwards.

starts = run.starts()                   # [(0.01, "A"), (0.01, "B"), ...], seconds and lane
counts(starts, 1.0)                     # [3, 3, 3]: windows that begin with a start, as qlab has them
busiest(starts, 1.0)                    # the most in any second at all, wherever it begins
"""

from __future__ import annotations

from collections.abc import Sequence

from qlab.classroom.lanes import Dot, Lanes, Span
from qlab.classroom.texts import text

Start = tuple[float, str]


def counts(starts: Sequence[Start], length: float) -> list[int]:
    """Starts in each fixed window of ``length`` seconds; a window begins with the first start after the last.

    Times are whole milliseconds, as the queue counts them.
    """
    found: list[int] = []
    begin = -1.0
    for at, _ in sorted(starts):
        if not found or round((at - begin) * 1000) >= round(length * 1000):
            begin = at
            found.append(0)
        found[-1] += 1
    return found


def busiest(starts: Sequence[Start], length: float) -> int:
    """The most starts in any stretch of ``length`` seconds, wherever it begins."""
    times = sorted(at for at, _ in starts)
    return max((sum(first <= at < first + length for at in times) for first in times), default=0)


def picture(title: str, starts: Sequence[Start], length: float) -> Lanes:
    """The fixed windows, the busiest stretch if it holds more than any of them, and each worker's starts.

    Seconds are counted from the first start. Starts close together are one dot with their number.
    """
    first = min(at for at, _ in starts)
    moved = [(at - first, lane) for at, lane in sorted(starts)]
    things: list[Span | Dot] = []
    begin, numbers = 0.0, counts(moved, length)
    for number in numbers:
        word = text("lanes.window", count=number)
        things.append(Span(text("lanes.windows"), begin, begin + length, "window", word))
        begin = min((at for at, _ in moved if at > begin + length - 0.0005), default=begin)
    most = busiest(moved, length)
    if most > max(numbers):
        start = next(at for at, _ in moved if sum(at <= other < at + length for other, _ in moved) == most)
        word = text("lanes.window", count=most)
        things.append(Span(text("lanes.any_stretch"), start, start + length, "busy", word))
    return Lanes(title, [*things, *_dots(moved, length)])


def _dots(starts: Sequence[Start], length: float) -> list[Dot]:
    found: list[Dot] = []
    for lane in sorted({lane for _, lane in starts}):
        name, groups = text("timeline.lane_worker", lane=lane), list[list[float]]()
        for at in (at for at, own in starts if own == lane):
            if groups and at - groups[-1][0] < length / 30:
                groups[-1].append(at)
            else:
                groups.append([at])
        found += [Dot(name, group[0], f"×{len(group)}" if len(group) > 1 else "") for group in groups]
    return found
