"""A quiz that answers each answer: click, read why, try again; a pass is remembered.

    Quiz("D03")        # questions: text/vi/quiz/D03.toml

Buttons do all of it, so Tab and Enter are enough. A page that cannot run code shows the questions,
the pictures in words too, and the replies folded away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from . import markup, strip
from .progress import Progress, current
from .quiz_items import Question, read
from .texts import load, text

LETTERS = "ABCDEFGH"


class ChoiceView(widgets.VBox):
    """A question with one button for each answer (a sentence or a picture) and a line for the reply."""

    def __init__(self, question: Question, number: int, answered: Callable[[str, bool], None]) -> None:
        self.question, self._answered = question, answered
        self.buttons = [widgets.Button().add_class("ql-choice") for _ in question.choices]
        self.replies = [_reply_line() for _ in question.choices]
        rows: list[widgets.Widget] = [widgets.HTML(_heading(question, number))]
        for index, (choice, button) in enumerate(zip(question.choices, self.buttons, strict=True)):
            if choice.marks:
                rows.append(widgets.HTML(strip.svg(list(choice.marks))))
                button.tooltip = strip.words(list(choice.marks))
            button.description = self._label(index)
            button.on_click(lambda _, picked=index: self.pick(picked))
            rows += [button, self.replies[index]]
        super().__init__(rows)
        self.add_class("ql-question")

    def pick(self, index: int) -> None:
        """Answer with choice number ``index`` and show the reply to it."""
        right, why = self.question.reply(index)
        for other, button in enumerate(self.buttons):
            button.description = self._label(other)
            button.remove_class("ql-right").remove_class("ql-wrong")
            _show(self.replies[other], _reply(right, why) if other == index else "")
        self.buttons[index].description = f"{'✓' if right else '✗'} {self._label(index)}"
        self.buttons[index].add_class("ql-right" if right else "ql-wrong")
        self._answered(self.question.id, right)

    def _label(self, index: int) -> str:
        choice = self.question.choices[index]
        words = markup.plain(choice.says) or text("quiz.this_picture")
        return f"{LETTERS[index]}. {words}"


class OrderView(widgets.VBox):
    """Steps to press one after the other; pressing a placed step takes it back."""

    def __init__(self, question: Question, number: int, answered: Callable[[str, bool], None]) -> None:
        self.question, self._answered = question, answered
        self.placed: list[str] = []
        self.reply = _reply_line()
        self.buttons = {step: widgets.Button().add_class("ql-choice") for step, _ in question.steps}
        for step, button in self.buttons.items():
            button.on_click(lambda _, pressed=step: self.press(pressed))
        self.again = widgets.Button(description=text("quiz.again"), layout={"width": "max-content"})
        self.again.on_click(lambda _: self.restart())
        heading = _heading(question, number) + markup.paragraphs(text("quiz.how_to_order"))
        super().__init__([widgets.HTML(heading), *self.buttons.values(), self.again, self.reply])
        self.add_class("ql-question")
        self._draw()

    def press(self, step: str) -> None:
        """Place a step next, or take it back; when all are placed, show the reply."""
        if step in self.placed:
            self.placed.remove(step)
        else:
            self.placed.append(step)
        self._draw()
        if len(self.placed) < len(self.buttons):
            _show(self.reply, "")
            return
        right, why = self.question.reply_to_order(self.placed)
        _show(self.reply, _reply(right, why))
        self._answered(self.question.id, right)

    def restart(self) -> None:
        """Take all steps back."""
        self.placed.clear()
        _show(self.reply, "")
        self._draw()

    def _draw(self) -> None:
        for step, says in self.question.steps:
            place = f"{self.placed.index(step) + 1}." if step in self.placed else "…"
            self.buttons[step].description = f"{place} {markup.plain(says)}"


class Quiz(widgets.VBox):
    """The questions of ``quiz_id``; when each has been answered rightly once, the pass is recorded.

    Raises MissingText for an unknown id and QuizError for a file that cannot be asked.
    """

    def __init__(self, quiz_id: str, *, progress: Progress | None = None) -> None:
        self.id = quiz_id
        self.title, self.questions = read(quiz_id)
        self.progress = progress if progress is not None else current()
        self.tries = {question.id: 0 for question in self.questions}
        self.right_first: set[str] = set()
        self.right: set[str] = set()
        self.views = [
            (OrderView if question.kind == "order" else ChoiceView)(question, number, self._answered)
            for number, question in enumerate(self.questions, 1)
        ]
        self.summary = widgets.HTML().add_class("ql-summary")
        super().__init__([widgets.HTML(markup.STYLE + self._title()), *self.views, self.summary])
        self.add_class("ql-card").add_class("ql-quiz")
        self._summarise()

    @property
    def passed(self) -> bool:
        """Whether each question has been answered rightly since this quiz was shown."""
        return len(self.right) == len(self.questions)

    def _answered(self, question: str, right: bool) -> None:
        if question in self.right:
            return
        self.tries[question] += 1
        if right:
            self.right.add(question)
            if self.tries[question] == 1:
                self.right_first.add(question)
            if self.passed:
                self.progress.pass_quiz(self.id, self.tries)
        self._summarise()

    def _summarise(self) -> None:
        counts = {"right": len(self.right), "total": len(self.questions), "first": len(self.right_first)}
        line = text("quiz.passed" if self.passed else "quiz.so_far", **counts)
        more = [text("quiz.on_board")] if self.passed and self.id in load("board")["items"] else []
        more += self.progress.notices if self.passed else []
        self.summary.value = markup.status(markup.paragraphs(f"<strong>{line}</strong>", *more))

    def _title(self) -> str:
        return f"<p><strong>{markup.inline(self._heading())}</strong></p>"

    def _heading(self) -> str:
        on_board = self.id in load("board")["items"]
        return f"{text('quiz.heading', id=self.id) if on_board else text('quiz.short')} · {self.title}"

    def __repr__(self) -> str:
        lines = [markup.plain(self._heading())]
        for number, question in enumerate(self.questions, 1):
            lines.append(f"{number}. {markup.plain(question.ask)}")
            lines += [f"   {letter}) {markup.plain(words)}" for letter, words, _ in _answers(question)]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        still = "".join([self._title(), *(_still(q, n) for n, q in enumerate(self.questions, 1))])
        return super()._repr_mimebundle_(**kwargs) | {
            "text/plain": repr(self),
            "text/html": markup.card(still),
        }


def _heading(question: Question, number: int) -> str:
    return f"<p><strong>{number}.</strong> {markup.inline(question.ask)}</p>"


def _reply_line() -> widgets.HTML:
    return widgets.HTML(layout={"display": "none"}).add_class("ql-feedback")


def _show(line: widgets.HTML, html: str) -> None:
    line.value, line.layout.display = html, None if html else "none"


def _reply(right: bool, why: str) -> str:
    verdict = text("quiz.right" if right else "quiz.wrong")
    return markup.status(markup.paragraphs(f"<strong>{verdict}</strong> {markup.inline(why)}"))


def _answers(question: Question) -> list[tuple[str, str, str]]:
    """Letter, words and reply of each answer; the steps of an order question have no reply of their own."""
    if question.kind == "order":
        return [(LETTERS[n], says, "") for n, (_, says) in enumerate(question.steps)]
    return [(LETTERS[n], c.says or strip.words(list(c.marks)), c.why) for n, c in enumerate(question.choices)]


def _still(question: Question, number: int) -> str:
    """One question for a page that cannot run code: what is asked, then the replies, folded away."""
    items, replies = [], []
    for n, (letter, words, why) in enumerate(_answers(question)):
        picture = strip.svg(list(question.choices[n].marks)) if question.kind == "picture" else ""
        items.append(f"<p>{picture}{'<br>' if picture else ''}{letter}. {markup.inline(words)}</p>")
        if question.kind != "order":
            verdict = text("quiz.right" if question.choices[n].right else "quiz.wrong")
            replies.append(f"{letter}. {verdict} {markup.inline(why)}")
    if question.kind == "order":
        says = dict(question.steps)
        replies = [
            " → ".join(markup.inline(says[step]) for step in question.answer),
            markup.inline(question.why),
        ]
    folded = f"<details><summary>{text('quiz.replies')}</summary>{markup.paragraphs(*replies)}</details>"
    return f"{_heading(question, number)}{''.join(items)}{folded}"
