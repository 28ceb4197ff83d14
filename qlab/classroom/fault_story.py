"""A schedule of the explorer told in Vietnamese: one sentence for each step, and one for how it ends."""

from __future__ import annotations

from qlab.classroom.fault_words import Names, answer_name, effect_name, fault_key, outcome_name
from qlab.classroom.texts import load, text
from qlab.testing.explorer.report import QUEUE, Schedule, Step


def step_sentences(schedule: Schedule, names: Names) -> list[str]:
    """One sentence for each step, in order."""
    return [_sentence(schedule, number, step, names) for number, step in enumerate(schedule.steps)]


def outcome_sentence(outcome: str) -> str:
    """How the schedule ended, and what that means."""
    meaning = load("fault")["ends"].get(outcome, "")
    return text("fault.ends_with", outcome=outcome_name(outcome), meaning=meaning).strip()


def store_name(store: str) -> str:
    """What a lesson calls PostgreSQL, Redis and the payment provider."""
    return str(load("fault")["stores"].get(store, store))


def previous(schedule: Schedule, number: int) -> tuple[str, str]:
    """The delivery before the one that step ``number`` begins, and why there is another.

    The reason is "dead", "fail" or "stall", and empty for a first delivery.
    """
    step = schedule.steps[number]
    if step.delivery == 0:
        return "", ""
    name = step.actor + "'" * (step.delivery - 1)
    before = [s for s in schedule.steps[:number] if s.name == name]
    ends = [s.effect for s in before if s.store == QUEUE and s.effect != "deliver"]
    if ends:
        return name, ends[-1]
    return name, "stall" if any(s.fault == "~" for s in before) else "fail"


def resumes(schedule: Schedule, number: int) -> bool:
    """Whether a delivery that had stalled moves on with this step."""
    step = schedule.steps[number]
    before = [s for s in schedule.steps[:number] if s.name == step.name and s.store != QUEUE]
    return bool(before) and before[-1].fault == "~"


def _sentence(schedule: Schedule, number: int, step: Step, names: Names) -> str:
    if step.store == QUEUE:
        return _queue_sentence(schedule, number, step)
    said = text(
        f"fault.steps.{fault_key(step.fault)}",
        who=step.name,
        effect=effect_name(step.effect, names),
        store=store_name(step.store),
        answer=text("fault.answer", result=answer_name(step.result)) if step.result else "",
    )
    return text("fault.resumes", who=step.name, then=said) if resumes(schedule, number) else said


def _queue_sentence(schedule: Schedule, number: int, step: Step) -> str:
    before, reason = previous(schedule, number)
    wait = _seconds(schedule, number)
    if step.effect == "deliver":
        known = load("fault")["deliver"]
        key = reason if reason in known else "first"
        return text(f"fault.deliver.{key}", who=step.name, before=before, wait=wait)
    key = step.effect.replace(" ", "_")
    if key not in load("fault")["queue"]:
        return text("fault.queue.other", who=step.name, effect=step.effect)
    if key == "ack" and _somebody_else(schedule, number, step):
        key = "ack_late"
    return text(f"fault.queue.{key}", who=step.name)


def _somebody_else(schedule: Schedule, number: int, step: Step) -> bool:
    """Whether another delivery of the same job was acknowledged before."""
    return any(
        s.actor == step.actor and s.effect == "ack" for s in schedule.steps[:number] if s.store == QUEUE
    )


def _seconds(schedule: Schedule, number: int) -> str:
    """How long everybody had waited before this step, on the virtual clock."""
    passed = schedule.steps[number].at - (schedule.steps[number - 1].at if number else 0.0)
    return f"{passed:g}".replace(".", ",")
