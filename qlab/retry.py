"""How long to wait before the next attempt.

Exponential growth with a ceiling, and jitter so that jobs which failed together do not come back together
(M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Seconds = float | timedelta
MAX_DELAY = 300.0


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

    kind: Literal["fixed", "exponential"]
    base: float
    jitter: float = 0.0
    max_delay: float = MAX_DELAY

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "exponential"):
            raise ValueError(f"backoff kind must be 'fixed' or 'exponential', not {self.kind!r}")
        seconds(self.base, "backoff base")
        seconds(self.max_delay, "backoff max_delay")
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise ValueError(f"backoff jitter must be between 0 and 1, not {self.jitter!r}")

    @classmethod
    def fixed(cls, base: Seconds, *, jitter: float = 0.0) -> "Backoff":
        """Always `base` seconds (with jitter: between base * (1 - jitter) and base)."""
        return cls(
            "fixed", seconds(base, "backoff base"), jitter, max(seconds(base, "backoff base"), MAX_DELAY)
        )

    @classmethod
    def exponential(cls, base: Seconds, *, jitter: float = 0.0, max_delay: Seconds = MAX_DELAY) -> "Backoff":
        """`base`, 2 * base, 4 * base ... seconds up to `max_delay`; each in [d * (1 - jitter), d]."""
        return cls(
            "exponential", seconds(base, "backoff base"), jitter, seconds(max_delay, "backoff max_delay")
        )

    def delay(self, attempts_made: int, rng: random.Random | None = None) -> float:
        """Seconds to wait after `attempts_made` failed attempts (1 or more)."""
        full = self.base
        if self.kind == "exponential":
            full = self.base * 2.0 ** min(attempts_made - 1, 60)
        full = min(full, self.max_delay)
        low = full * (1 - self.jitter)
        return low + (rng or random).random() * (full - low)

    def encode(self) -> str:
        """The form kept in the job's hash, for example `exponential:1000:0.5:300000` (ms)."""
        return f"{self.kind}:{self.base * 1000:.15g}:{self.jitter:.15g}:{self.max_delay * 1000:.15g}"

    @classmethod
    def decode(cls, text: str) -> "Backoff":
        """The rule from its stored form."""
        kind, base, jitter, max_delay = text.split(":")
        return cls(kind, float(base) / 1000, float(jitter), float(max_delay) / 1000)  # type: ignore[arg-type]
