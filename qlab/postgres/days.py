"""Days as pairs of instants in a named zone: most have 24 hours, two a year 23 and 25 (or other lengths)."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Day:
    """A calendar day; it holds every instant with `start` <= instant < `end` (aware, UTC)."""

    date: date
    start: datetime
    end: datetime


def zone_of(name: object) -> ZoneInfo:
    """The time zone `name`, such as "Asia/Ho_Chi_Minh". Raises ValueError when there is none."""
    try:
        if isinstance(name, str):
            return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # not found; not a zone's name; a folder of zones
        pass
    raise ValueError(f"unknown time zone {name!r}; use an IANA name such as 'Asia/Ho_Chi_Minh' or 'UTC'")


def day_in(zone: ZoneInfo, day: date) -> Day:
    """The day `day` of this zone. Raises ValueError for a datetime and for days near the end of time."""
    if isinstance(day, datetime) or not isinstance(day, date):
        raise ValueError(f"a day is a datetime.date, not {day!r}")
    if not date(2, 1, 1) <= day < date(9999, 1, 1):
        raise ValueError(f"day {day} is too near the first or last day that Python knows")
    return Day(day, _midnight(zone, day), _midnight(zone, day + ONE_DAY))


def _midnight(zone: ZoneInfo, day: date) -> datetime:
    # Where clocks go forward at midnight, 00:00 does not exist; fold=0 gives the instant of the change,
    # which is when the day begins. Where midnight comes twice it gives the first.
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)
