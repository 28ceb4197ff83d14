"""The questions of a quiz as plain data, read from a text file and checked once.

Three kinds: ``choice`` (one sentence is right), ``picture`` (one strip is right) and ``order`` (put
the steps in order). Every wrong answer has its own reply: why it is tempting, and what is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import strip
from .texts import load, text

KINDS = ("choice", "picture", "order")


class QuizError(ValueError):
    """A quiz file that cannot be asked: says which question and what to put right."""


@dataclass(frozen=True)
class Choice:
    """One answer of a choice or picture question; ``why`` is the reply to whoever picks it."""

    says: str
    why: str
    right: bool = False
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """A wrong order: ``first`` placed before ``then``."""

    first: str
    then: str
    why: str


@dataclass(frozen=True)
class Question:
    """One question of any kind; an ``order`` question has ``steps`` (id, words) to put in order."""

    id: str
    kind: str
    ask: str
    choices: tuple[Choice, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    answer: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    why: str = ""

    def reply(self, picked: int) -> tuple[bool, str]:
        """Whether choice number ``picked`` is right, and the reply to it."""
        choice = self.choices[picked]
        return choice.right, choice.why

    def reply_to_order(self, placed: list[str]) -> tuple[bool, str]:
        """Whether the steps are in order; else the reply to the first known mistake in them."""
        if tuple(placed) == self.answer:
            return True, self.why
        for mistake in self.mistakes:
            if placed.index(mistake.first) < placed.index(mistake.then):
                return False, mistake.why
        return False, text("quiz.other_order")


def read(quiz_id: str) -> tuple[str, list[Question]]:
    """Return the title and the questions of ``quiz/<quiz_id>.toml``.

    Raises MissingText when there is no such file and QuizError when a question cannot be asked.
    """
    found = load(f"quiz/{quiz_id}")
    try:
        title, questions = found["title"], [_question(raw) for raw in found["questions"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise QuizError(f"quiz/{quiz_id}.toml lacks {error}") from None
    except ValueError as error:
        raise QuizError(f"quiz/{quiz_id}.toml: {error}") from None
    if len({question.id for question in questions}) < len(questions):
        raise QuizError(f"quiz/{quiz_id}.toml: two questions have one id")
    return title, questions


def _question(raw: dict[str, Any]) -> Question:
    if raw["kind"] not in KINDS:
        raise QuizError(f"question {raw['id']!r}: kind must be one of {', '.join(KINDS)}")
    return _order(raw) if raw["kind"] == "order" else _choice(raw)


def _choice(raw: dict[str, Any]) -> Question:
    choices = tuple(
        Choice(c.get("says", ""), c["why"], c.get("right", False), tuple(c.get("marks", ())))
        for c in raw["choices"]
    )
    if len(choices) < 3 or sum(choice.right for choice in choices) != 1:
        raise QuizError(f"question {raw['id']!r}: give three or more choices, exactly one with right = true")
    for choice in choices:
        strip.parse(list(choice.marks))
        if bool(choice.marks) != (raw["kind"] == "picture"):
            raise QuizError(
                f"question {raw['id']!r}: a picture question has marks in each choice, others none"
            )
    return Question(raw["id"], raw["kind"], raw["ask"], choices)


def _order(raw: dict[str, Any]) -> Question:
    steps = tuple((step["id"], step["says"]) for step in raw["steps"])
    answer = tuple(raw["answer"])
    mistakes = tuple(Mistake(m["first"], m["then"], m["why"]) for m in raw["mistakes"])
    if sorted(answer) != sorted(step for step, _ in steps):
        raise QuizError(f"question {raw['id']!r}: answer must name each step once")
    for mistake in mistakes:
        if answer.index(mistake.first) < answer.index(mistake.then):
            raise QuizError(f"question {raw['id']!r}: {mistake.first} before {mistake.then} is no mistake")
    return Question(raw["id"], "order", raw["ask"], (), steps, answer, mistakes, raw["why"])
