"""A schedule of the explorer, step by step: a timeline with a slider, and the same story in sentences.

    report.shortest_failure             # or: await report.replay("A1>")
    FaultSchedule(report.shortest_failure, names={"LPOP jobs": "nhận việc"})

A page that cannot run code shows the whole picture and all the sentences.  The buttons do what the slider
does, because JupyterLab keeps the arrow keys for itself; Tab and Enter reach them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from qlab.classroom import markup
from qlab.classroom.fault_schedule_svg import draw
from qlab.classroom.fault_story import outcome_sentence, step_sentences
from qlab.classroom.fault_words import Names, outcome_name
from qlab.classroom.texts import text
from qlab.testing.explorer.report import Schedule


class FaultSchedule(widgets.VBox):
    """One schedule, ready to be shown.  ``title`` is one line that says what to see.

    Raises ValueError when there is no schedule, as ``report.shortest_failure`` is None when nothing failed.
    """

    def __init__(
        self, schedule: Schedule | None, title: str | None = None, *, names: Names | None = None
    ) -> None:
        if schedule is None:
            raise ValueError(
                "there is no schedule to draw: this report has no failure; replay a seed instead"
            )
        self.schedule, self.names = schedule, dict(names or {})
        given = text("fault.schedule", seed=schedule.seed, outcome=outcome_name(schedule.outcome))
        self.title = given if title is None else title
        self.steps = step_sentences(schedule, self.names)
        self.ending = outcome_sentence(schedule.outcome)
        last = len(self.steps)
        wide = widgets.Layout(width="min(380px, 90%)")
        self.slider = widgets.IntSlider(last, 1, last, description=text("fault.step"), layout=wide)
        self.slider.observe(lambda _: self._draw(), "value")
        self.buttons = [
            self._button("fault.to_start", lambda: 1),
            self._button("fault.back", lambda: self.slider.value - 1),
            self._button("fault.forward", lambda: self.slider.value + 1),
        ]
        self.picture, self.told = widgets.HTML(), widgets.HTML()
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        controls = widgets.HBox([self.slider, *self.buttons], layout=wrap)
        super().__init__([widgets.HTML(markup.STYLE), self.picture, controls, self.told])
        self.add_class("ql-schedule")
        self._draw()

    @property
    def sentences(self) -> list[str]:
        """The text equivalent: a sentence for each step, and one for how it ended."""
        return [*self.steps, markup.plain(self.ending)]

    def svg(self, upto: int | None = None) -> str:
        """The picture; with ``upto`` only so many steps in full and the last of them marked."""
        return draw(self.schedule, self.title, self.sentences, self.names, upto=upto)

    def text(self) -> str:
        """The text equivalent as a numbered list."""
        return "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(self.sentences, 1))

    def _button(self, key: str, goal: Callable[[], int]) -> Any:
        button = widgets.Button(description=text(key), layout={"width": "max-content"})
        button.on_click(lambda _: self._go(goal()))
        return button

    def _go(self, step: int) -> None:
        self.slider.value = min(max(step, 1), len(self.steps))

    def _draw(self) -> None:
        here, last = self.slider.value, len(self.steps)
        self.picture.value = f'<div style="overflow-x:auto">{self.svg(None if here == last else here)}</div>'
        lines = [f"{here}. {self.steps[here - 1]}", self.ending if here == last else ""]
        self.told.value = markup.status(markup.paragraphs(*map(markup.inline, lines)))

    def __repr__(self) -> str:
        return f"{self.title}\n{self.text()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        items = "".join(f"<li>{markup.inline(sentence)}</li>" for sentence in [*self.steps, self.ending])
        told = f"<details><summary>{text('timeline.steps')}</summary><ol>{items}</ol></details>"
        still = f'<div style="overflow-x:auto">{self.svg()}</div>{told}'
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": repr(self), "text/html": still}
