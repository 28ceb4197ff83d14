"""Draw a schedule as SVG: deliveries above, stores below, an arrow for each call, a sign for what broke."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from qlab.classroom import svg
from qlab.classroom import timeline_symbols as signs
from qlab.classroom.fault_layout import BAR, DELIVERY, LEFT, STORE, Column, SchedulePlan, lane_title, plan
from qlab.classroom.fault_words import Names
from qlab.classroom.texts import text
from qlab.classroom.timeline_svg import WIDEST, heading
from qlab.testing.explorer.report import QUEUE, Schedule

STYLE = """.fs-here{fill:#fff3c4}.fs-edge{stroke:#b97f00;stroke-width:2;fill:none}
@media (prefers-color-scheme: dark){.fs-here{fill:#3a3212}.fs-edge{stroke:#e69f00}}"""


def draw(
    schedule: Schedule, title: str, told: Sequence[str], names: Names, *, upto: int | None = None
) -> str:
    """The picture; with ``upto`` only the first steps in full, the last of them marked, the rest pale."""
    made = plan(schedule, title, names)
    words = " ".join(told)
    mark = svg.mark_of(title, words, upto)
    shown = len(made.columns) if upto is None else upto
    past = "".join(_column(made, column, mark) for column in made.columns[:shown])
    future = "".join(_column(made, column, mark) for column in made.columns[shown:])
    bars = "".join(_bar(made, name, mark, shown) for name in made.lanes if _is_delivery(made, name))
    here = _here(made, made.columns[upto - 1]) if upto else ""
    height = made.height + 4
    opening = svg.opening(title, words, mark, made.width, height, min(1.0, WIDEST / made.width))
    head = f"<style>{STYLE}</style>{heading(title, text('fault.axis'), made.width, height)}"
    lanes = "".join(_lane(made, name) for name in made.lanes)
    pale = f'<g opacity="0.28">{future}</g>' if future else ""
    return f"{opening}{signs.defs(mark)}{head}{lanes}{here}{bars}{past}{pale}</svg>"


def _is_delivery(made: SchedulePlan, name: str) -> bool:
    return any(column.step.name == name for column in made.columns)


def _lane(made: SchedulePlan, name: str) -> str:
    top, high = made.lanes[name], DELIVERY if _is_delivery(made, name) else STORE
    return (
        f'<rect class="qt-lane" x="{LEFT:.0f}" y="{top:.1f}" width="{made.width - LEFT - 8:.1f}" '
        f'height="{high:.1f}" rx="6"/><text class="qt-ink" x="{LEFT - 10:.0f}" y="{top + high / 2 + 4:.1f}" '
        f'text-anchor="end" font-weight="600">{escape(lane_title(name))}</text>'
    )


def _colour(made: SchedulePlan, name: str) -> str:
    deliveries = [lane for lane in made.lanes if _is_delivery(made, lane)]
    return signs.WORKERS[deliveries.index(name) % len(signs.WORKERS)]


def _bar_top(made: SchedulePlan, name: str) -> float:
    return made.lanes[name] + (DELIVERY - BAR) / 2


def _bar(made: SchedulePlan, name: str, mark: str, shown: int) -> str:
    """The life of a delivery: hatched while it hangs, pale once somebody else has the job."""
    mine = [column for column in made.columns if column.step.name == name]
    look, (start, end), y = signs.styles(_colour(made, name), mark), made.span(name), _bar_top(made, name)
    stalled = next((i for i, column in enumerate(mine) if column.step.fault == "~"), None)
    opacity = ' opacity="0.28"' if made.columns.index(mine[0]) >= shown else ""
    if stalled is None:
        return f"<g{opacity}>{signs.bar(start, end, y, BAR, look['solid'])}</g>"
    hangs = mine[stalled].x + mine[stalled].width / 2
    wakes = mine[stalled + 1].x - mine[stalled + 1].width / 2 if len(mine) > stalled + 1 else made.width - 14
    out = signs.bar(start, hangs, y, BAR, look["solid"]) + signs.bar(hangs, wakes, y, BAR, look["rest"])
    if len(mine) > stalled + 1:
        out += signs.bar(wakes, end, y, BAR, look["unlocked"])
    return f"<g{opacity}>{out}</g>"


def _here(made: SchedulePlan, column: Column) -> str:
    """The band that marks the step that the slider stands on."""
    left, high = column.x - column.width / 2 + 1, made.height - 60
    box = f'x="{left:.1f}" y="56" width="{column.width - 2:.1f}" height="{high:.1f}" rx="5"'
    return f'<rect class="fs-here" opacity="0.55" {box}/><rect class="fs-edge" {box}/>'


def _column(made: SchedulePlan, column: Column, mark: str) -> str:
    out = _wait(made, column)
    step, x, y = column.step, column.x, _bar_top(made, column.step.name)
    if step.store == QUEUE:
        return out + _queue(column, x, y)
    on_bar = "~" not in _so_far(made, column)
    out += _words(column.label, x, y + BAR / 2 + 4, strong=step.fault != ".", on_bar=on_bar)
    if step.fault == "~":
        return out
    goal = made.lanes[step.store]
    return out + _call(column, y + BAR, goal, mark)


def _so_far(made: SchedulePlan, column: Column) -> str:
    """The faults of this delivery before this step."""
    mine = made.columns[: made.columns.index(column)]
    return "".join(c.step.fault for c in mine if c.step.name == column.step.name)


def _call(column: Column, start: float, lane: float, mark: str) -> str:
    """From the delivery down to the store, as far as it got, and what became of the reply."""
    step, x, arrow = column.step, column.x, f' marker-end="url(#arrow{mark})"'
    if step.fault == "<":
        stop = start + 14
        return _line(x, start, stop, ' stroke-dasharray="4 3"') + signs.cut(x - 4, stop)
    middle = lane + STORE / 2 - 6
    if step.fault == "!":
        out = _line(x, start, lane + 6) + signs.cross(x, middle, 6, 3)
    else:
        out = _line(x, start, middle - 9, arrow) + _done(column, x, middle + 3)
    if step.fault in ">?":
        back = lane - 6
        out += _line(x - 12, middle - 8, back, ' stroke-dasharray="4 3"') + signs.cut(x - 16, back - 8)
    return out + _words(column.answer, x, lane + STORE - 6)


def _done(column: Column, x: float, y: float) -> str:
    if column.step.store == "provider" and column.new:
        return signs.coin(x, y, 9)
    return f'<circle class="qt-ink" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def _queue(column: Column, x: float, y: float) -> str:
    """What the queue did: a start, an end, a death, and the job that it gave up."""
    middle = y + BAR / 2
    match column.step.effect:
        case "deliver":
            sign = f'<path fill="{signs.DARK}" d="M{x + 3:.1f} {middle - 7:.1f}l11 7l-11 7z"/>'
        case "dead":
            sign = signs.cross(x, middle, 8, 3.5)
        case "give up":
            sign = signs.given_up(x, middle)
        case _:
            sign = f'<path class="qt-line" d="M{x:.1f} {y - 3:.1f}v{BAR + 6}"/>'
    return sign + _words(column.label, x, y - 5 if column.step.effect != "deliver" else y - 4, strong=True)


def _wait(made: SchedulePlan, column: Column) -> str:
    if not column.wait:
        return ""
    x = column.x - column.width / 2 - 3
    rule = f'<path class="qt-line" d="M{x:.1f} {72}V{made.height - 8:.1f}" stroke-dasharray="2 4"/>'
    return rule + _words(column.wait, x, 68)


def _line(x: float, start: float, end: float, more: str = "") -> str:
    return f'<path class="qt-line" d="M{x:.1f} {start:.1f}V{end:.1f}"{more}/>'


def _words(words: str, x: float, y: float, *, strong: bool = False, on_bar: bool = False) -> str:
    ink = f'fill="{signs.DARK}"' if on_bar else 'class="qt-ink"'
    weight = ' font-weight="600"' if strong else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="11"'
    return f"<text {ink} {place}{weight}>{escape(words)}</text>" if words else ""
