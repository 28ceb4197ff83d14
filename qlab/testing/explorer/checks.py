"""What was handed to an exploration is looked at first, so that a slip gets a sentence, not our traceback."""

from __future__ import annotations

from typing import Any

from qlab.testing.explorer.errors import ExplorerError
from qlab.testing.explorer.rules import Actor, DeliveryRules, Provider
from qlab.testing.explorer.servers import FaultLab


def check_lab(lab: object) -> None:
    """Raise TypeError or ExplorerError for what is no open lab."""
    if not isinstance(lab, FaultLab):
        raise TypeError(f"the first argument is a FaultLab, not {type(lab).__name__}")
    if not lab.open:
        raise ExplorerError("the lab is not open; explore inside `async with FaultLab() as lab`")


def check_actors(actors: tuple[Any, ...]) -> None:
    """Raise TypeError or ValueError unless these are one or two actors."""
    if not 1 <= len(actors) <= 2:
        raise ValueError(f"there are {len(actors)} actors; pass one or two")
    for one in actors:
        if not isinstance(one, Actor):
            raise TypeError(f'an actor is Actor("A", handler), not {type(one).__name__}')
    if len({actor.name for actor in actors}) != len(actors):
        raise ValueError("two actors have the same name; name them A and B")


def check_bounds(faults: Any, switches: Any, schedules: Any, seconds: Any, patience: Any) -> None:
    """Raise ValueError for bounds and limits that make no sense."""
    for number, most in ((faults, 3), (switches, 5)):
        if type(number) is not int or not 0 <= number <= most:
            raise ValueError("faults can be 0 to 3 and switches 0 to 5: more would never end")
    if schedules is not None and (type(schedules) is not int or schedules < 1):
        raise ValueError(f"limit_schedules is {schedules!r}; pass a whole number of 1 or more, or None")
    if seconds is not None and not (_is_number(seconds) and seconds >= 0):
        raise ValueError(f"limit_seconds is {seconds!r}; pass seconds, or None")
    if not (_is_number(patience) and patience > 0):
        raise ValueError(f"patience is {patience!r}; pass seconds above zero")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_kinds(rules: object, provider: object, invariant: object, setup: object) -> None:
    """Raise TypeError for what is of another kind."""
    for value, kind, name in ((rules, DeliveryRules, "rules"), (provider, Provider, "provider")):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {kind.__name__}, not {type(value).__name__}")
    if not callable(invariant) or not (setup is None or callable(setup)):
        raise TypeError("invariant and setup are async functions of the stores (Evidence)")
