"""The words of a timeline: short labels for the picture, and whole sentences for those who do not see it."""

from __future__ import annotations

from qlab.classroom.story import BROKER, Event, Story, by_cause, fold
from qlab.classroom.texts import text

BOLD = 1.1  # how much wider a semi-bold text is
TITLE_LEFT, TITLE_SIZE = 16.0, 16.0


def job_name(job: int, jobs: int) -> str:
    """The learner's name of a job: its number only when there are several, never an id."""
    return text("timeline.job_n", n=job) if jobs > 1 else text("timeline.job")


def lane_name(lane: str) -> str:
    """The name at the left of a lane."""
    return text("timeline.lane_broker") if lane == BROKER else text("timeline.lane_worker", lane=lane)


def word(name: str, **fields: object) -> str:
    """A fixed text of the picture that belongs to no single event."""
    return text(f"timeline.word.{name}", **fields)


def label(event: Event, jobs: int) -> str:
    """The short text beside an event in the picture; ``jobs`` is how many jobs the picture shows."""
    kind = _variant(event)
    if kind == "stopped":
        return ""
    return _filled(f"timeline.label.{kind}", event, jobs)


def sentences(events: list[Event]) -> list[str]:
    """The run told in whole sentences, one for each thing that the picture shows, in the same order."""
    story = fold(by_cause(events))
    return [_sentence(story, i, event) for i, event in enumerate(story.events) if event.kind != "stopped"]


def _sentence(story: Story, index: int, event: Event) -> str:
    kind = _variant(event)
    if kind == "died" and (attempt := story.attempt(event.lane, index)):
        job = job_name(attempt.job, story.jobs)
        return text("timeline.sentence.died_working", lane=event.lane, note=event.note, job=job)
    return _filled(f"timeline.sentence.{kind}", event, story.jobs)


def _variant(event: Event) -> str:
    return "failed_broker" if event.kind == "failed" and event.lane == BROKER else event.kind


def _filled(key: str, event: Event, jobs: int) -> str:
    job = job_name(event.job, jobs)
    return text(key, lane=event.lane, job=job, claim=event.claim, note=event.note)


def text_width(text: str, size: float = 12.0, *, strong: bool = False) -> float:
    """A careful guess (DejaVu Sans, the widest of the usual fonts) of the width of a text in pixels."""
    units = 0.0
    for char in text:
        units += (
            0.38
            if char in " .,:;'|·iíìỉĩịjlt()"
            else 0.88
            if char in "mwMW→✗✓"
            else 0.74
            if char.isupper()
            else 0.64
        )
    return units * size * (BOLD if strong else 1.0)


def title_width(title: str) -> float:
    """The width of a picture that just holds its title."""
    return 2 * TITLE_LEFT + text_width(title, TITLE_SIZE, strong=True)
