"""How long to wait before the next attempt.

Exponential growth with a ceiling, and jitter so that jobs which failed together do not come back together
(M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
"""

import inspect
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Seconds = float | timedelta
MAX_DELAY, MAX_UNASKED = 300.0, 86_400.0
Waits = Mapping[str, Callable[[int, BaseException], Seconds]]
"""A worker's own functions by name: attempts made and the error of the last one -> seconds to wait."""


def seconds(value: Seconds, what: str) -> float:
    """A duration as seconds. Raises ValueError when it is not a finite number of at least 0."""
    result = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise ValueError(f"{what} must be a number of seconds or a timedelta, not {value!r}")
    if not 0 <= result < 1e10:
        raise ValueError(f"{what} must be between 0 and 1e10 seconds, not {value!r}")
    return float(result)


def milliseconds(value: Seconds, what: str) -> int:
    """A duration as whole milliseconds, rounded up: a delay is never cut short."""
    exact = seconds(value, what) * 1000
    whole = int(exact)
    return whole if exact - whole < 1e-6 else whole + 1


@dataclass(frozen=True)
class Backoff:
    """A rule for the wait before attempt n+1; make one with `fixed` or `exponential`."""

    kind: Literal["fixed", "exponential", "custom"]
    base: float
    jitter: float = 0.0
    max_delay: float = MAX_DELAY
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "exponential", "custom"):
            raise ValueError(f"backoff kind must be 'fixed', 'exponential' or 'custom', not {self.kind!r}")
        seconds(self.base, "backoff base")
        seconds(self.max_delay, "backoff max_delay")
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise ValueError(f"backoff jitter must be between 0 and 1, not {self.jitter!r}")

    @classmethod
    def fixed(cls, base: Seconds, *, jitter: float = 0.0) -> "Backoff":
        """Always `base` seconds (with jitter: between base * (1 - jitter) and base)."""
        wait = seconds(base, "backoff base")
        return cls("fixed", wait, jitter, max(wait, MAX_DELAY))

    @classmethod
    def exponential(
        cls, base: Seconds, *, jitter: float = 0.0, max_delay: Seconds | None = None
    ) -> "Backoff":
        """`base`, 2 * base, 4 * base ... seconds up to `max_delay`; each in [d * (1 - jitter), d].

        Without a `max_delay` they go up to 300 seconds, or to a `base` that is longer (a day at most).
        """
        first = seconds(base, "backoff base")
        usual = max(min(first, MAX_UNASKED), MAX_DELAY)
        ceiling = usual if max_delay is None else seconds(max_delay, "backoff max_delay")
        return cls("exponential", first, jitter, ceiling)

    @classmethod
    def custom(cls, name: str = "default", *, max_delay: Seconds = MAX_DELAY) -> "Backoff":
        """What the worker's function of this name says, up to `max_delay`; see `backoff` of Worker."""
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
            raise ValueError(f"backoff name must be letters, digits, '_', '.' and '-', not {name!r}")
        return cls("custom", 0.0, 0.0, seconds(max_delay, "backoff max_delay"), name)

    def ask(self, waits: Waits, attempts_made: int, error: BaseException) -> float:
        """As `delay`, for any kind. Raises ValueError if the function is missing or answers nonsense."""
        if self.kind != "custom":
            return self.delay(attempts_made)
        if self.name not in waits:
            raise ValueError(f"this worker has no backoff function {self.name!r}")
        answer = waits[self.name](attempts_made, error)
        return min(seconds(answer, f"the answer of backoff function {self.name!r}"), self.max_delay)

    def delay(self, attempts_made: int, rng: random.Random | None = None) -> float:
        """Seconds to wait after `attempts_made` failed attempts (1 or more)."""
        if self.kind == "custom":
            raise ValueError("a custom backoff is for jobs on Redis: the function belongs to their Worker")
        full = self.base
        if self.kind == "exponential":
            full = self.base * 2.0 ** min(attempts_made - 1, 60)
        full = min(full, self.max_delay)
        low = full * (1 - self.jitter)
        return low + (rng or random).random() * (full - low)

    def encode(self) -> str:
        """The form kept in the job's hash, for example `exponential:1000:0.5:300000` (ms)."""
        text = f"{self.kind}:{self.base * 1000:.15g}:{self.jitter:.15g}:{self.max_delay * 1000:.15g}"
        return f"{text}:{self.name}" if self.name else text

    @classmethod
    def decode(cls, text: str) -> "Backoff":
        """The rule from its stored form."""
        kind, base, jitter, max_delay, *name = text.split(":")
        return cls(kind, float(base) / 1000, float(jitter), float(max_delay) / 1000, *name)  # type: ignore[arg-type]


def check_waits(given: object) -> Waits:
    """The backoff functions of a worker; one alone is called "default". Raises TypeError for what is none."""
    waits = given if isinstance(given, Mapping) else {} if given is None else {"default": given}
    for name, function in waits.items():
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise TypeError(
                f"backoff {name!r} must be a plain function of (attempts_made, error) that returns seconds, "
                f"not {function!r}"
            )
    return dict(waits)
