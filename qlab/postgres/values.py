"""Checks what is handed to a statement, so that bad input is refused here, in one clear sentence."""

import re
from datetime import datetime
from typing import Any

from qlab import payload
from qlab.errors import PayloadError
from qlab.retry import Seconds, seconds

INTEGER, BIGINT = 2**31 - 1, 2**63 - 1
"""The largest numbers of PostgreSQL's types."""

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def aware(now: datetime | None, what: str = "now") -> datetime | None:
    """The time itself. Raises ValueError when it has no time zone: then nobody knows which instant it is."""
    if now is not None and now.utcoffset() is None:
        raise ValueError(f"{what} has no time zone; pass an aware datetime, such as datetime.now(UTC)")
    return now


def json_text(value: Any, what: str) -> str:
    """Strict JSON that PostgreSQL can store. Raises PayloadError."""
    text = payload.encode(value, what=what)
    if _NUL.search(text):
        raise PayloadError(f"{what} holds a NUL character, which PostgreSQL cannot store as text")
    return text


def short_text(value: object, what: str, most: int = 255) -> str:
    """A text of 1 to `most` characters that can be shown. Raises ValueError otherwise."""
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ValueError(f"{what} is a text of 1 to {most} characters, not {value!r:.50}")
    if not value.isprintable():  # neither NUL nor a lone surrogate is
        raise ValueError(f"the {what} holds NUL or another character that cannot be shown")
    return value


def whole(value: object, what: str, least: int = 1, most: int = INTEGER) -> int:
    """A whole number from `least` to `most`. Raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} must be a whole number of {least} or more, not {value!r}")
    if value > most:
        raise ValueError(f"{what} must be a whole number of at most {most:,}, not {value!r}")
    return value


def lock_time(value: Seconds, what: str) -> float:
    """Seconds above zero. Raises ValueError otherwise."""
    if (time := seconds(value, what)) > 0:
        return time
    raise ValueError(f"{what} must be more than 0 seconds")


def function(value: object, what: str) -> None:
    """Raise TypeError for what cannot be called, such as a coroutine: then it was called already."""
    if not callable(value):
        raise TypeError(f"{what} must be a function, not {type(value).__name__}; pass it without calling it")
