"""Guess before you run: a widget that takes and locks one guess and compares it with the run.

Choices are buttons, not radio buttons: JupyterLab takes the arrow keys for itself, Tab and Enter it leaves.

It never blocks. Without a guess the lesson goes on and the comparison is left out; a guess that
is locked after the run still gets its answer, marked as late. A page that cannot run code shows
the question and its choices.

    guess = Predict("03-charges")      # question and choices: text/vi/predict/03-charges.toml
    ...                                # the real run
    guess.compare(charges)             # feedback to this learner
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from . import markup
from .progress import Progress, current
from .texts import MissingText, load, text


@dataclass(frozen=True)
class Option:
    """One choice: the value a run may give, how it reads, and what to say to whoever chose it wrongly."""

    value: str
    label: str
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """A locked guess beside what the run gave."""

    guess: Option
    actual: Option
    reason: str
    lesson: str
    late: bool = False

    @property
    def right(self) -> bool:
        """Whether the guess was what happened."""
        return self.guess.value == self.actual.value

    def lines(self) -> list[str]:
        """The feedback, sentence by sentence, in the texts' own small markup."""
        verdict = "predict.right" if self.right else "predict.wrong"
        found = [text(verdict, guess=self.guess.label, actual=self.actual.label)]
        if self.reason:
            found.append(text("predict.your_reason", reason=self.reason))
        if not self.right:
            found.append(self.guess.why)
        found.append(self.lesson)
        if self.late:
            found.append(text("predict.late"))
        return [line for line in found if line]

    def __repr__(self) -> str:
        return "\n".join(markup.plain(line) for line in self.lines())

    def _repr_html_(self) -> str:
        return markup.card(markup.paragraphs(*map(markup.inline, self.lines())))


class Predict(widgets.VBox):
    """A question with choices, an optional one-line "why", and a button that locks the guess.

    ``prediction_id`` names a text file in ``predict/``; a notebook of your own may pass ``question`` and
    ``options`` (labels, or a mapping of value to label) instead. Raises MissingText for an unknown id and
    ValueError for fewer than two choices or for two with one value.
    """

    def __init__(
        self,
        prediction_id: str,
        question: str | None = None,
        options: Iterable[str] | Mapping[str, str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.id = prediction_id
        self.question, self.options, self.lesson = _content(prediction_id, question, options)
        self.progress = progress if progress is not None else current()
        self.reason = ""
        self._guess: Option | None = None
        self._actual: Option | None = None
        self.selected: str | None = None
        self.choices = {option.value: widgets.Button().add_class("ql-choice") for option in self.options}
        for value, button in self.choices.items():
            button.on_click(lambda _, chosen=value: self.choose(chosen))
        self.why = widgets.Text(placeholder=text("predict.why"), tooltip=text("predict.why"))
        self.why.layout = widgets.Layout(width="100%", max_width="560px")
        self.why.observe(lambda _: self._catch_up(), "value")
        self.button = widgets.Button(description=text("predict.lock"), layout={"width": "max-content"})
        self.feedback = widgets.HTML().add_class("ql-feedback")
        self.button.on_click(lambda _: self.reopen() if self._guess else self.lock())
        heading = markup.paragraphs(
            f"<strong>{text('predict.heading')}</strong>", markup.inline(self.question)
        )
        foot = [self.why, self.button, self.feedback]
        super().__init__([widgets.HTML(markup.STYLE + heading), *self.choices.values(), *foot])
        self.add_class("ql-card").add_class("ql-predict")
        self._restore()

    @property
    def guess(self) -> str | None:
        """The value of the locked guess, or None."""
        return self._guess.value if self._guess else None

    def choose(self, value: str) -> None:
        """Select a choice without locking it. Raises ValueError when no choice has this value."""
        self.selected = self._option(value).value
        self._draw()

    def lock(self) -> None:
        """Lock the choice that is selected and remember it; without one, ask for one."""
        if self.selected is None:
            self._say(text("predict.choose"))
            return
        option, reason = self._option(self.selected), self.why.value.strip()
        self.progress.remember_guess(self.id, option.value, reason)
        self._hold(option, reason)
        if self._actual:
            self._say(*Comparison(option, self._actual, reason, self.lesson, late=True).lines())
        else:
            self._say(text("predict.locked", guess=option.label), *self.progress.notices)

    def _catch_up(self) -> None:
        """Letters typed just before the lock may reach the kernel just after it."""
        if self._guess and self.why.value.strip() != self.reason:
            self.lock()

    def reopen(self) -> None:
        """Let the learner guess again; the old guess stays remembered until a new one is locked."""
        self._guess, self.reason = None, ""
        self._set_open(True)
        self._say()

    def compare(self, actual: object) -> Comparison | None:
        """Compare the guess with what the run gave; None (nothing shown) without a guess.

        Raises ValueError when ``actual`` is none of the choices' values.
        """
        self._actual = self._option(str(actual))
        return Comparison(self._guess, self._actual, self.reason, self.lesson) if self._guess else None

    def _restore(self) -> None:
        remembered = self.progress.guess(self.id)
        known = {option.value: option for option in self.options}
        if remembered is None or remembered["choice"] not in known:
            self._set_open(True)
            return
        option = known[remembered["choice"]]
        self.selected, self.why.value = option.value, str(remembered.get("why", ""))
        self._hold(option, self.why.value)
        self._say(text("predict.remembered", guess=option.label))

    def _hold(self, option: Option, reason: str) -> None:
        self._guess, self.reason = option, reason
        self._set_open(False)

    def _set_open(self, is_open: bool) -> None:
        for widget in (*self.choices.values(), self.why):
            widget.disabled = not is_open
        self.button.description = text("predict.lock" if is_open else "predict.again")
        self._draw()

    def _draw(self) -> None:
        for option in self.options:
            sign = "●" if option.value == self.selected else "○"
            self.choices[option.value].description = f"{sign} {markup.plain(option.label)}"

    def _say(self, *lines: str) -> None:
        self.feedback.value = markup.status(markup.paragraphs(*map(markup.inline, lines)))

    def _option(self, value: str) -> Option:
        for option in self.options:
            if option.value == value:
                return option
        values = ", ".join(option.value for option in self.options)
        raise ValueError(f"prediction {self.id!r} has no choice {value!r}: its values are {values}")

    def __repr__(self) -> str:
        choices = "\n".join(f"  ( ) {markup.plain(option.label)}" for option in self.options)
        return f"{text('predict.heading')} {markup.plain(self.question)}\n{choices}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        choices = "".join(f"<li>{markup.inline(option.label)}</li>" for option in self.options)
        heading = f"<strong>{text('predict.heading')}</strong>"
        still = markup.paragraphs(heading, markup.inline(self.question)) + f"<ul>{choices}</ul>"
        return super()._repr_mimebundle_(**kwargs) | {
            "text/plain": repr(self),
            "text/html": markup.card(still),
        }


def _content(
    prediction_id: str,
    question: str | None,
    options: Iterable[str] | Mapping[str, str] | None,
) -> tuple[str, list[Option], str]:
    """Return question, choices and what to remember: from the arguments, else from the text file."""
    lesson = ""
    if question is None or options is None:
        found = load(f"predict/{prediction_id}")
        try:
            question, lesson = found["question"], found.get("lesson", "")
            parsed = [Option(str(o["value"]), o["label"], o.get("why", "")) for o in found["options"]]
        except (KeyError, TypeError) as error:
            raise MissingText(f"predict/{prediction_id}.toml needs question and options: {error}") from None
    else:
        pairs = options.items() if isinstance(options, Mapping) else ((o, o) for o in options)
        parsed = [Option(str(value), str(label)) for value, label in pairs]
    if len(parsed) < 2 or len({option.value for option in parsed}) < len(parsed):
        raise ValueError(f"prediction {prediction_id!r} needs two or more choices with different values")
    return question, parsed, lesson
