"""What to explore: the actors, the rules of the queue that delivers to them, the provider, and seeds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_SEED = re.compile(r"([A-Za-z_]+'*)(\d+)([<>~!?]?)")
NOTHING = "-"
"""The seed of the run in which nothing fails and nobody is interrupted."""

Move = tuple[str, str]
"""Who moves (A, A', B), and what befalls the effect: a key of FAULTS, or "." for nothing."""


@dataclass(frozen=True)
class Actor:
    """A worker and its one job. `handler(world)` is called for each delivery of the job."""

    name: str
    handler: Callable[[Any], Awaitable[object]]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]+", self.name):
            raise ValueError(f"an actor's name is letters only, such as A; not {self.name!r}")
        if not callable(self.handler):
            raise TypeError(f"the handler of {self.name} must be an async function of the world")


@dataclass(frozen=True)
class DeliveryRules:
    """The rules of the queue, visible. Durations are virtual seconds.

    lease:      how long a handler may hold a lock of its own; the explorer only hands it on (`world.rules`).
    visibility: a delivery whose worker died or stalled comes back after this long; None: never, as with a
                web request that nobody repeats.
    backoff:    pauses before the deliveries after a failure; the last one is repeated if needed.
    attempts:   deliveries before the queue gives up because of failures; None: one more than `backoff` has.
    """

    lease: float = 30.0
    visibility: float | None = 35.0
    backoff: tuple[float, ...] = (1.0, 2.0, 4.0)
    attempts: int | None = None

    def __post_init__(self) -> None:
        durations = [self.lease, *self.backoff, *([] if self.visibility is None else [self.visibility])]
        if not all(0 < duration < float("inf") for duration in durations):
            raise ValueError("lease, visibility and backoff are seconds above zero")
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; pass 1 or more, or None")

    @property
    def stall(self) -> float:
        """How long a stalled worker sleeps: until its job was given to another one."""
        return self.lease + 5 if self.visibility is None else self.visibility

    def pause(self, failures: int) -> float | None:
        """Seconds until the delivery after so many failures; None when the queue gives up."""
        most = len(self.backoff) + 1 if self.attempts is None else self.attempts
        if failures >= most:
            return None
        return self.backoff[min(failures, len(self.backoff)) - 1] if self.backoff else 1.0


@dataclass(frozen=True)
class Provider:
    """The payment provider of a schedule. `dedupe`: the same key charges once."""

    dedupe: bool = True


async def asked(function: Callable[[Any], Any], what: str, stores: Any) -> Any:
    """What an async function of the stores answers. Raises TypeError for a plain one."""
    made = function(stores)
    if not inspect.isawaitable(made):
        raise TypeError(f"{what} must be an async function; write `async def`")
    return await made


def format_seed(moves: Sequence[Move], interesting: int) -> str:
    """The first `interesting` moves, run-length encoded: "A1> A'2" is A, A with a crash after, A', A'."""
    words: list[str] = []
    for name, run in groupby(moves[:interesting], key=lambda move: move[0]):
        quiet = 0
        for _, fault in run:
            if fault == ".":
                quiet += 1
            else:
                words.append(f"{name}{quiet}{fault}")
                quiet = 0
        if quiet:
            words.append(f"{name}{quiet}")
    return " ".join(words) or NOTHING


def parse_seed(seed: str) -> list[Move]:
    """The moves of a seed. Raises ValueError for anything else."""
    moves: list[Move] = []
    for word in [] if seed.strip() in ("", NOTHING) else seed.split():
        match = _SEED.fullmatch(word)
        if match is None or int(match[2]) > 10_000:
            raise ValueError(f"{word!r} is no part of a seed; write a name, a number and a fault: A1> A'0?")
        name, quiet, fault = match.groups()
        moves += [(name, ".")] * int(quiet)
        if fault:
            moves.append((name, fault))
    return moves
