"""Where everything in the picture of a schedule goes: a column a step, a lane a delivery or store.

The axis is the order of the steps; a jump of the virtual clock is written between two columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qlab.classroom.fault_story import resumes, store_name
from qlab.classroom.fault_words import Names, answer_name, effect_name, fault_name
from qlab.classroom.texts import load, text
from qlab.classroom.timeline_text import text_width, title_width
from qlab.testing.explorer.report import QUEUE, Schedule, Step

LEFT, TOP, MARGIN, GAP = 124.0, 78.0, 20.0, 8.0
DELIVERY, STORE, BAR = 52.0, 50.0, 26.0  # heights: a lane of a delivery, a lane of a store, the bar in it
STORES = ("postgres", "redis", "provider")
ENDS = ("ack", "fail", "dead")  # what ends a delivery


@dataclass
class Column:
    """One step: its place, what is written on the delivery's lane, and what the store answered.

    `new` is False when the provider answered with a charge that it had made before.
    """

    step: Step
    label: str
    answer: str
    wait: str
    new: bool = True
    x: float = 0.0
    width: float = 0.0


@dataclass
class SchedulePlan:
    """A schedule with a place for everything in it."""

    schedule: Schedule
    columns: list[Column]
    lanes: dict[str, float] = field(default_factory=dict)
    """Top of each lane: deliveries by name, then stores."""
    width: float = 0.0
    height: float = 0.0

    def span(self, name: str) -> tuple[float, float]:
        """Where the bar of a delivery begins and ends."""
        mine = [column for column in self.columns if column.step.name == name]
        over = (column.x for column in mine if column.step.effect in ENDS and column.step.store == QUEUE)
        return mine[0].x, next(over, mine[-1].x + mine[-1].width / 2)


def plan(schedule: Schedule, title: str, names: Names) -> SchedulePlan:
    """Place a schedule; wide enough for its title."""
    columns = [_column(schedule, number, names) for number in range(len(schedule.steps))]
    made = SchedulePlan(schedule, columns)
    x = LEFT + 6
    for column in columns:
        column.width = _needed(column)
        if column.wait:
            x += text_width(column.wait, 10.0) / 2 + 6  # the words stand above the line between two columns
        column.x = x + column.width / 2
        x += column.width
    made.width = max(x + MARGIN, title_width(title), 480.0)
    y = TOP
    for name in dict.fromkeys(step.name for step in schedule.steps):
        made.lanes[name] = y
        y += DELIVERY + GAP
    for store in STORES:
        if any(step.store == store for step in schedule.steps):
            made.lanes[store] = y
            y += STORE + GAP
    made.height = y
    return made


def lane_title(name: str) -> str:
    """The name at the left of a lane."""
    if name in STORES:
        return store_name(name)
    return text("fault.lane" if "'" not in name else "fault.lane_again", who=name)


def _column(schedule: Schedule, number: int, names: Names) -> Column:
    step = schedule.steps[number]
    passed = step.at - (schedule.steps[number - 1].at if number else 0.0)
    wait = text("fault.waited", seconds=f"{passed:g}".replace(".", ",")) if passed > 0 else ""
    if step.store == QUEUE:
        marks = load("fault")["marks"]
        return Column(step, str(marks.get(step.effect.replace(" ", "_"), step.effect)), "", wait)
    label = effect_name(step.effect, names)
    if step.fault != ".":
        label = f"{label} · {fault_name(step.fault)}"
    elif resumes(schedule, number):
        label = text("fault.resumed", effect=label)
    # An effect that has not happened yet carries the answer that it will get when its actor wakes up.
    before = {s.result for s in schedule.steps[:number] if s.store == "provider" and s.fault not in "<~"}
    answer = step.result if step.fault not in "<~" else ""
    return Column(step, label, answer_name(answer), wait, new=not answer.isdigit() and answer not in before)


def _needed(column: Column) -> float:
    strong = column.step.fault != "." or column.step.store == QUEUE
    label, answer = text_width(column.label, 11.0, strong=strong), text_width(column.answer, 11.0)
    return max(label + 14, answer + 10, 44.0)
