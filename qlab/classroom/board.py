"""The 23 "Done khi" of the chapter: what each asks, where it is taught, what is proved so far.

``Board()`` in a notebook is a table with a text equivalent; ``python -m qlab board`` prints the
text. ``LessonMap()`` lists the lessons; only lessons that exist are links.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import markup
from .progress import Progress, current
from .texts import load, text

STATES = ("both", "run", "quiz", "open", "absent")


def lessons_folder() -> Path:
    """The folder of the lessons: ``notebooks/`` of this course, else of the working folder."""
    course = Path(__file__).resolve().parents[2] / "notebooks"
    return course if course.is_dir() else Path.cwd() / "notebooks"


@dataclass(frozen=True)
class Lesson:
    """One lesson of the plan; ``file`` is its notebook's name, or None while it is not written."""

    number: str
    title: str
    file: str | None


@dataclass(frozen=True)
class Item:
    """One "Done khi": its id, what the learner can do, its lesson and one of STATES."""

    id: str
    says: str
    lesson: Lesson
    state: str


def lessons(folder: Path | None = None) -> list[Lesson]:
    """The planned lessons in order, each with its notebook when there is one."""
    there = {
        path.name[:2]: path.name for path in sorted((folder or lessons_folder()).glob("[0-9][0-9]_*.ipynb"))
    }
    return [Lesson(number, title, there.get(number)) for number, title in load("board")["lessons"].items()]


class Board:
    """What is proved of the 23 items: by an asserted run, by a quiz, by both."""

    def __init__(self, progress: Progress | None = None, folder: Path | None = None) -> None:
        self.progress = progress if progress is not None else current()
        by_number = {lesson.number: lesson for lesson in lessons(folder)}
        facts = self.progress.items
        self.items = [
            Item(item, raw["says"], lesson, _state(facts.get(item, {}), lesson.file is not None))
            for item, raw in load("board")["items"].items()
            for lesson in [by_number[raw["lesson"]]]
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many items are in each state; every state is there."""
        return dict.fromkeys(STATES, 0) | Counter(item.state for item in self.items)

    def summary(self) -> str:
        """One sentence: how many items are proved in full."""
        return text("board.summary", proved=self.counts["both"], total=len(self.items))

    def __repr__(self) -> str:
        lines = [f"{text('board.title')}: {self.summary()}"]
        for item in self.items:
            sign, state = text(f"board.signs.{item.state}"), text(f"board.{item.state}")
            lines.append(f"{sign} {item.id} [{item.lesson.number}] {item.says} ({state})")
        return "\n".join([*lines, *self.progress.notices])

    def _repr_html_(self) -> str:
        heads = [text("board.column_state"), text("board.column_item"), text("board.column_lesson")]
        notices = markup.paragraphs(*map(markup.inline, self.progress.notices))
        caption = f"<p><strong>{text('board.title')}</strong> · {self.summary()}</p>"
        return caption + markup.table(heads, [_row(item) for item in self.items]) + notices


class LessonMap:
    """The lessons of the course in order."""

    def __init__(self, folder: Path | None = None) -> None:
        self.lessons = lessons(folder)

    def __repr__(self) -> str:
        lines = [text("board.map_title")]
        for lesson in self.lessons:
            there = lesson.file or text("board.map_absent")
            lines.append(f"{lesson.number} · {lesson.title} ({there})")
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        lines = [f"**{text('board.map_title')}**", ""]
        for lesson in self.lessons:
            name = f"{lesson.number} · {lesson.title}"
            linked = f"[{name}]({lesson.file})" if lesson.file else f"{name} *({text('board.map_absent')})*"
            lines.append(f"- {linked}")
        return "\n".join(lines)


def main() -> int:
    """Print the board; for ``python -m qlab board``."""
    print(Board())
    return 0


def _state(facts: dict[str, dict[str, object]], there: bool) -> str:
    if "run" in facts and "quiz" in facts:
        return "both"
    return next((kind for kind in ("run", "quiz") if kind in facts), "open" if there else "absent")


def _row(item: Item) -> list[str]:
    state = f"{text(f'board.signs.{item.state}')} {text(f'board.{item.state}')}"
    name = markup.inline(f"{item.lesson.number} · {item.lesson.title}")
    lesson = f'<a href="{item.lesson.file}">{name}</a>' if item.lesson.file else name
    return [state, f"<strong>{item.id}</strong> {markup.inline(item.says)}", lesson]
