"""The words of faults and outcomes, shared by the fault table, the schedule and the bench."""

from __future__ import annotations

from collections.abc import Mapping

from qlab.classroom.texts import load, text
from qlab.testing.explorer.report import FAULTS as KINDS

FAULTS = "".join(KINDS)
"""The kinds of fault in the order of the columns: crash before, crash after, stall, error, reply lost."""

Names = Mapping[str, str]
"""What an effect is called in a lesson, by the name that the explorer gives it."""


def fault_key(fault: str) -> str:
    """The name under which the texts keep a kind of fault."""
    return _KEYS[fault]


def fault_name(fault: str) -> str:
    """Name a kind of fault in two or three words."""
    return text(f"fault.kinds.{fault_key(fault)}")


def fault_meaning(fault: str) -> str:
    """Say in a few more words what a kind of fault is."""
    return text(f"fault.meanings.{fault_key(fault)}")


def outcome_name(outcome: str | None, *, short: bool = False) -> str:
    """Name an outcome; a word that the texts do not know (an invariant of your own) stands for itself."""
    if outcome is None:
        return text("fault.not_applicable")
    found = load("fault")["short" if short else "outcomes"].get(outcome, outcome)
    return str(found)


def effect_name(effect: str, names: Names) -> str:
    """What a lesson calls an effect; else what the texts call its verb; else the explorer's own name."""
    verb = effect.partition(" ")[0]
    return names.get(effect) or str(load("fault")["verbs"].get(verb, effect))


def answer_name(result: str) -> str:
    """What a server answered: its own words ("INSERT 0 1", "nil"), else what the texts call them."""
    return str(load("fault")["answers"].get(result, result))


_KEYS = {"<": "before", ">": "after", "~": "stall", "!": "error", "?": "reply_lost", ".": "none"}
