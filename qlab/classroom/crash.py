"""Place the crash yourself: order of the two steps × place of the SIGKILL, guessed first, then really run.

    CrashBench(crash, {"work_first": "charge:worker", "ack_first": "ack_first:worker"})

``crash(target, point)`` is the lesson's own coroutine: it runs the worker, kills it at the point and returns
the Recording.  Nothing runs until somebody presses the button, so the bench never holds a notebook up; a
page that cannot run code shows the question and the six cells to be filled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets

from qlab.classroom import markup
from qlab.classroom.processes import LabError
from qlab.classroom.recorder import Recording
from qlab.classroom.texts import load, text

ORDERS = ("work_first", "ack_first")
POINTS = ("before", "between", "after")
GUESSES = (0, 1, 2)
Run = Callable[[str, str], Awaitable[Recording]]


class CrashBench(widgets.VBox):
    """Six experiments, each a real run.  ``targets`` names the worker for each order of the two steps."""

    def __init__(self, run: Run, targets: Mapping[str, str]) -> None:
        if set(targets) != set(ORDERS):
            raise ValueError(f"targets must name a worker for each of {', '.join(ORDERS)}")
        self._run, self._targets = run, dict(targets)
        self.order, self.point, self.guess = ORDERS[0], "", -1
        self.charges: dict[tuple[str, str], int] = {}
        self.task: asyncio.Task[None] | None = None
        self._home = _running_loop()
        self.orders = {name: self._button(partial(self.choose, order=name)) for name in ORDERS}
        self.points = {name: self._button(partial(self.choose, point=name)) for name in POINTS}
        self.guesses = {number: self._button(partial(self.choose, guess=number)) for number in GUESSES}
        self.steps = [widgets.HTML() for _ in range(3)]
        self.start = widgets.Button(description=text("crash.run"), layout={"width": "max-content"})
        self.start.on_click(lambda _: self.go())
        self.feedback, self.picture, self.table = widgets.HTML(), widgets.HTML(), widgets.HTML()
        line = [part for pair in zip(self.steps, self.points.values(), strict=True) for part in pair]
        wrap = {"flex_flow": "row wrap", "align_items": "center"}
        super().__init__([
            widgets.HTML(markup.STYLE + _heading()),
            widgets.HBox([widgets.HTML(f"{text('crash.order')}:"), *self.orders.values()], layout=wrap),
            widgets.HBox([widgets.HTML(f"{text('crash.place')}:"), *line], layout=wrap),
            widgets.HBox(
                [widgets.HTML(text("crash.guess")), *self.guesses.values(), self.start], layout=wrap
            ),
            self.feedback,
            self.table,
            self.picture,
        ])  # fmt: skip
        self.add_class("ql-card").add_class("ql-crash")
        self._draw()

    @staticmethod
    def _button(pressed: Callable[[], None]) -> Any:
        button = widgets.Button(layout={"width": "max-content"})
        button.on_click(lambda _: pressed())
        return button

    def choose(self, *, order: str | None = None, point: str | None = None, guess: int | None = None) -> None:
        """Choose the order of the steps, the place of the crash, or the guess."""
        self.order = self.order if order is None else order
        self.point = self.point if point is None else point
        self.guess = self.guess if guess is None else guess
        self._say()
        self._draw()

    def go(self) -> None:
        """Run what has been chosen; ask for what is missing.

        JupyterLab may deliver a press of a button in a thread with an event loop of its own, while the lab's
        connections belong to the loop of the cell: the run goes to the loop in which the bench was made.
        """
        if not self.point or self.guess < 0:
            self._say(text("crash.choose"))
            return
        self._enable(False)
        self._say(text("crash.running"))
        here = asyncio.get_running_loop()
        home, chosen = self._home or here, (self.order, self.point, self.guess)
        if home is here:
            self._begin(*chosen)
        else:
            home.call_soon_threadsafe(self._begin, *chosen)

    def _begin(self, order: str, point: str, guess: int) -> None:
        self.task = asyncio.get_running_loop().create_task(self._go(order, point, guess))

    async def _go(self, order: str, point: str, guess: int) -> None:
        try:
            run = await self._run(self._targets[order], point)
        except LabError as error:
            self._say(str(error))
            return
        except Exception as error:  # nobody awaits this task: unsaid, the bench would seem to run for ever
            self._say(text("crash.error", error=str(error) or type(error).__name__))
            return
        finally:
            self._enable(True)
            self.start.focus()  # a browser takes the focus away from a button that is disabled
        charges = run.count("effect")
        self.charges[order, point] = charges
        verdict = "crash.right" if guess == charges else "crash.wrong"
        done = text("crash.all_tried") if len(self.charges) == len(ORDERS) * len(POINTS) else ""
        why = text(f"crash.why.{order}.{point}")
        self._say(text(verdict, guess=guess, charges=charges), why, f"**{done}**" if done else "")
        names = {"order": text(f"crash.orders.{order}"), "point": text(f"crash.points.{point}")}
        timeline = run.timeline(text("crash.title", charges=charges, **names))
        self.picture.value = f'<div style="overflow-x:auto">{timeline.svg()}</div>'
        self.guess = -1
        self._draw()

    def _enable(self, on: bool) -> None:
        for button in (*self.orders.values(), *self.points.values(), *self.guesses.values(), self.start):
            button.disabled = not on

    def _say(self, *lines: str) -> None:
        self.feedback.value = markup.status(markup.paragraphs(*map(markup.inline, lines)))

    def _draw(self) -> None:
        for widget, step in zip(self.steps, _steps(self.order), strict=True):
            widget.value = f"<strong>{step}</strong> →&nbsp;"
        for name, button in self.orders.items():
            button.description = _choice(name == self.order, text(f"crash.orders.{name}"))
        for name, button in self.points.items():
            here = name == self.point
            where = text("crash.crash", point=text(f"crash.points.{name}"))  # no two buttons with one name
            button.description = _choice(here, where)
        for number, button in self.guesses.items():
            button.description = _choice(number == self.guess, str(number))
        self.table.value = _table(self.charges)

    def __repr__(self) -> str:
        lines = [f"{text('crash.heading')}. {markup.plain(text('crash.ask'))}"]
        lines += [f"  {text(f'crash.orders.{name}')}: {' → '.join(_steps(name))}" for name in ORDERS]
        return "\n".join([*lines, "  " + " · ".join(load("crash")["points"].values())])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        still = {"text/plain": repr(self), "text/html": markup.card(_heading() + _table({}))}
        return super()._repr_mimebundle_(**kwargs) | still


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _choice(chosen: bool, label: str) -> str:
    return text("crash.chosen" if chosen else "crash.open", label=label)


def _steps(order: str) -> list[str]:
    names = ("take", "work", "ack") if order == "work_first" else ("take", "ack", "work")
    return [text(f"crash.steps.{name}") for name in names]


def _heading() -> str:
    heading = f"<strong>{text('crash.heading')}</strong>"
    return markup.paragraphs(heading, markup.inline(text("crash.ask")))


def _table(charges: Mapping[tuple[str, str], int]) -> str:
    """What has been tried so far: a row for each order, a column for each place."""
    edge = 'style="border:1px solid currentColor;padding:.2em .7em;text-align:left"'
    head = "".join(f"<th {edge}>{text(f'crash.points.{point}')}</th>" for point in POINTS)
    rows = ""
    for order in ORDERS:
        cells = ""
        for point in POINTS:
            tried = charges.get((order, point))
            shown = text("crash.untried") if tried is None else text("crash.cell", charges=tried)
            cells += f"<td {edge}>{shown}</td>"
        rows += f"<tr><th {edge}>{text(f'crash.orders.{order}')}</th>{cells}</tr>"
    return (
        f'<table style="border-collapse:collapse;margin:.4em 0"><tr><th {edge}></th>{head}</tr>{rows}</table>'
    )
