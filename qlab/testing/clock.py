"""A clock that moves only when a test says so."""

from datetime import UTC, datetime, timedelta

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)


def system_clock() -> datetime:
    """The time now, aware, in UTC."""
    return datetime.now(UTC)


class ManualClock:
    """Callable that returns an aware datetime; `advance()` moves it forward."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        if start.tzinfo is None:
            raise ValueError("start has no time zone; write datetime(..., tzinfo=UTC)")
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def advance(self, duration: timedelta | float) -> datetime:
        """Move forward by a timedelta or by seconds, and return the new time."""
        step = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        if step < timedelta(0):
            raise ValueError("a clock does not run backwards; pass a duration of zero or more")
        self._now += step
        return self._now
