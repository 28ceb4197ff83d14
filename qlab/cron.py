"""When does a schedule tick? Pure functions of a pattern, a zone and a moment.

Cron arithmetic is cronsim's, which follows Debian's cron (manual page cron(8), "daylight saving"): a time
that a clock change skips runs at once after the gap; a time that comes twice runs the first time only. A
pattern for every hour (`0 * * * *`) ticks in both of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def check_cron(pattern: object, tz: object) -> None:
    """Raises ValueError if the pattern has not five fields or can never tick, or the zone is unknown."""
    if not isinstance(pattern, str) or len(pattern.split()) != 5:
        raise ValueError(
            f"cron pattern {pattern!r}: write five fields (minute hour day month weekday), as in '0 3 * * *'"
        )
    if not isinstance(tz, str) or not tz:
        raise ValueError("a cron schedule needs tz=, as in 'Asia/Ho_Chi_Minh': whose three o'clock is it?")
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {tz!r}; use a name of the IANA database") from None
    try:
        next_cron_tick(pattern, tz, 0)
    except (_error(), ValueError, StopIteration) as error:
        raise ValueError(f"cron pattern {pattern!r} can not be used: {error or 'it never ticks'}") from None


def next_cron_tick(pattern: str, tz: str, after: int) -> int:
    """The first tick later than `after`; both are milliseconds since the epoch."""
    start = datetime.fromtimestamp(after // 1000, UTC).astimezone(ZoneInfo(tz))
    for moment in _cronsim().CronSim(pattern, start):
        tick = int(moment.timestamp()) * 1000
        if tick > after:  # asked inside a repeated hour, cronsim answers with the first of the two
            return tick
    raise StopIteration


def next_interval_tick(anchor: int, every: int, after: int) -> int:
    """The first of anchor + every, anchor + 2 * every ... that is later than `after` (ms)."""
    return anchor + max((after - anchor) // every + 1, 1) * every


def _cronsim() -> Any:
    try:
        import cronsim
    except ImportError:
        raise RuntimeError("cron schedules need cronsim: pip install 'qlab-course[schedule]'") from None
    return cronsim


def _error() -> type[Exception]:
    error: type[Exception] = _cronsim().CronSimError
    return error
