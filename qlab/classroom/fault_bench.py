"""Place the fault yourself: protocol × effect × kind of fault, guessed first, then really run.

    FaultBench({"ACK trước": report_a, "làm trước": report_b})

The reports (``qlab.testing.explore``, one actor) say which effects there are; each press of the button
replays one schedule on the real servers.  Nothing runs until then, so the bench never holds a notebook up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets

from qlab.classroom import markup
from qlab.classroom.fault_schedule import FaultSchedule
from qlab.classroom.fault_words import FAULTS, Names, effect_name, fault_meaning, fault_name, outcome_name
from qlab.classroom.texts import text
from qlab.errors import QlabError
from qlab.testing.explorer.report import OUTCOMES, Report, Row

USUAL = ("once", "lost", "twice")
"""What may be guessed in any case; other outcomes are offered when some report has them."""


class FaultBench(widgets.VBox):
    """As many experiments as the reports have cells, each a real run.

    reports: what each protocol is called, and its report; names: what the lesson calls an effect.
    """

    def __init__(self, reports: Mapping[str, Report], *, names: Names | None = None) -> None:
        if not reports or not all(report.rows for report in reports.values()):
            raise ValueError("a bench needs reports with rows: explore one actor with faults=1")
        self.reports, self.names = dict(reports), dict(names or {})
        self.protocol, self.index, self.fault, self.guess = next(iter(self.reports)), -1, "", ""
        self.tried: dict[tuple[str, int, str], bool] = {}
        self.task: asyncio.Task[None] | None = None
        self.protocols = {name: self._button(partial(self.choose, protocol=name)) for name in self.reports}
        self.faults = {fault: self._button(partial(self.choose, fault=fault)) for fault in FAULTS}
        self.guesses = {word: self._button(partial(self.choose, guess=word)) for word in self._words()}
        self.effects: list[Any] = []
        self.start = self._button(self.go)
        self.start.description = text("fault.bench.run")
        self.feedback, self.stage = widgets.HTML(), widgets.VBox()
        self._line = self._wrapped([])
        super().__init__([
            widgets.HTML(markup.STYLE + _heading()),
            self._wrapped([widgets.HTML(text("fault.bench.protocol")), *self.protocols.values()]),
            self._line,
            self._wrapped([widgets.HTML(text("fault.bench.fault")), *self.faults.values()]),
            self._wrapped([widgets.HTML(text("fault.bench.guess")), *self.guesses.values(), self.start]),
            self.feedback,
            self.stage,
        ])  # fmt: skip
        self.add_class("ql-card").add_class("ql-fault-bench")
        self.layout.max_width = "1000px"  # a schedule needs more room than other cards
        self._place_effects()
        self._draw()

    @property
    def row(self) -> Row | None:
        """The effect that is chosen."""
        return self.reports[self.protocol].rows[self.index] if self.index >= 0 else None

    def choose(
        self,
        *,
        protocol: str | None = None,
        index: int | None = None,
        fault: str | None = None,
        guess: str | None = None,
    ) -> None:
        """Choose the protocol, the effect (its position, from 0), the kind of fault, or the guess."""
        if protocol is not None and protocol != self.protocol:
            self.protocol, self.index, self.fault, self.guess = protocol, -1, "", ""
            self._place_effects()
        self.index = self.index if index is None else index
        self.fault = self.fault if fault is None else fault
        self.guess = self.guess if guess is None else guess
        if self.fault and not self._possible(self.fault):
            self.fault = ""
        self._say()
        self._draw()

    def go(self) -> None:
        """Replay the schedule that has been chosen; ask for what is missing."""
        if self.row is None or not self.fault or not self.guess:
            self._say(text("fault.bench.choose"))
            return
        self._enable(False)
        self._say(text("fault.bench.running"))
        place = (self.protocol, self.index, self.fault)
        self.task = asyncio.get_running_loop().create_task(self._go(place, self.row.seeds[self.fault]))

    async def _go(self, place: tuple[str, int, str], seed: str) -> None:
        protocol, index, fault = place
        try:
            schedule = await self.reports[protocol].replay(seed)
        except (QlabError, ValueError) as error:
            self._say(text("fault.bench.error", error=error))
            return
        finally:
            self._enable(True)
            self._draw()
        right = self.guess == schedule.outcome
        self.tried[place] = right
        words = {"guess": outcome_name(self.guess), "outcome": outcome_name(schedule.outcome)}
        effect = effect_name(self.reports[protocol].rows[index].effect, self.names)
        title = text(
            "fault.bench.title", protocol=protocol, effect=effect, fault=fault_name(fault), seed=seed, **words
        )
        shown = FaultSchedule(schedule, title, names=self.names)
        self.stage.children = [shown]
        verdict = text("fault.bench.right" if right else "fault.bench.wrong", **words)
        self._say(verdict, self._score())
        self.guess = ""
        self._draw()

    def _score(self) -> str:
        """How many of all the cells have been tried, and how many of the guesses were right."""
        cells = sum(len(row.seeds) for report in self.reports.values() for row in report.rows)
        right = sum(self.tried.values())
        return text("fault.bench.score", tried=len(self.tried), cells=cells, right=right)

    def _words(self) -> list[str]:
        seen = {word for report in self.reports.values() for word in report.outcomes}
        return [*USUAL, *(word for word in OUTCOMES if word in seen and word not in USUAL)]

    def _possible(self, fault: str) -> bool:
        return self.row is None or fault in self.row.seeds

    def _place_effects(self) -> None:
        """One button for each effect of the protocol, in order."""
        rows = self.reports[self.protocol].rows
        self.effects = [self._button(partial(self.choose, index=number)) for number in range(len(rows))]
        arrow = [widgets.HTML("→") for _ in rows]
        line = [part for pair in zip(self.effects, arrow, strict=True) for part in pair][:-1]
        self._line.children = [widgets.HTML(text("fault.bench.place")), *line]

    def _enable(self, on: bool) -> None:
        groups = (self.protocols.values(), self.effects, self.faults.values(), self.guesses.values())
        for button in [button for group in groups for button in group] + [self.start]:
            button.disabled = not on

    def _draw(self) -> None:
        for name, button in self.protocols.items():
            button.description = _choice(name == self.protocol, name)
        for number, (button, row) in enumerate(
            zip(self.effects, self.reports[self.protocol].rows, strict=True)
        ):
            button.description = _choice(number == self.index, effect_name(row.effect, self.names))
        for fault, button in self.faults.items():
            button.description = _choice(fault == self.fault, f"{fault} {fault_name(fault)}")
            button.tooltip = fault_meaning(fault)
            button.disabled = self.start.disabled or not self._possible(fault)
        for word, button in self.guesses.items():
            button.description = _choice(word == self.guess, outcome_name(word))

    def _say(self, *lines: str) -> None:
        self.feedback.value = markup.status(markup.paragraphs(*map(markup.inline, lines)))

    @staticmethod
    def _button(pressed: Callable[[], None]) -> Any:
        button = widgets.Button(layout={"width": "max-content"})
        button.on_click(lambda _: pressed())
        return button

    @staticmethod
    def _wrapped(parts: list[Any]) -> Any:
        return widgets.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center"})

    def __repr__(self) -> str:
        lines = [f"{text('fault.bench.heading')}. {markup.plain(text('fault.bench.ask'))}"]
        return "\n".join([*lines, *(f"  {line}" for line in self._lines())])

    def _lines(self) -> list[str]:
        """Each protocol with its effects, then the faults, for a page that cannot run code."""
        steps = [
            f"{name}: {' → '.join(effect_name(row.effect, self.names) for row in report.rows)}"
            for name, report in self.reports.items()
        ]
        return [*steps, " · ".join(f"{fault} {fault_name(fault)}" for fault in FAULTS)]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        items = "".join(f"<li>{markup.inline(line)}</li>" for line in self._lines())
        still = markup.card(f"{_heading()}<ul>{items}</ul>")
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": repr(self), "text/html": still}


def _choice(chosen: bool, label: str) -> str:
    return text("crash.chosen" if chosen else "crash.open", label=label)


def _heading() -> str:
    heading = f"<strong>{text('fault.bench.heading')}</strong>"
    return markup.paragraphs(heading, markup.inline(text("fault.bench.ask")))
