"""Calendar arithmetic of schedules: a day is not 24 hours, and local times may be skipped or come twice."""

import os
import time
from datetime import UTC, datetime

import pytest

from qlab.cron import check_cron, next_cron_tick, next_interval_tick


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


CASES = [
    ("0 0 * * *", "US/Pacific", "2022-03-13T08:00", "2022-03-14T07:00"),
    ("0 9 * * *", "America/New_York", "2025-03-08T00:00", "2025-03-08T14:00"),
    ("0 9 * * *", "America/New_York", "2025-03-08T14:00", "2025-03-09T13:00"),
    ("0 9 * * *", "America/New_York", "2025-11-01T00:00", "2025-11-01T13:00"),
    ("0 9 * * *", "America/New_York", "2025-11-01T13:00", "2025-11-02T14:00"),
    ("30 2 * * *", "Europe/Berlin", "2025-03-29T01:30", "2025-03-30T01:00"),
    ("30 2 * * *", "Europe/Berlin", "2025-03-30T01:00", "2025-03-31T00:30"),
    ("30 2 * * *", "Europe/Berlin", "2025-10-25T00:30", "2025-10-26T00:30"),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26T00:30", "2025-10-27T01:30"),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26T01:00", "2025-10-27T01:30"),
    ("0 3 * * *", "Asia/Ho_Chi_Minh", "2025-10-05T00:00", "2025-10-05T20:00"),
]


@pytest.mark.parametrize("machine_zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(("pattern", "tz", "after", "tick"), CASES)
def test_h15_daily_cron_over_clock_changes(monkeypatch, machine_zone, pattern, tz, after, tick):
    monkeypatch.setitem(os.environ, "TZ", machine_zone)
    time.tzset()
    assert next_cron_tick(pattern, tz, ms(after)) == ms(tick)
    assert next_cron_tick(pattern, tz, ms(tick) - 1000) == ms(tick)
    for moment in (ms(tick), ms(tick) + 1, ms(tick) + 1000):
        assert next_cron_tick(pattern, tz, moment) > moment


@pytest.mark.parametrize(
    "tz", ["Europe/Berlin", "America/New_York", "Asia/Ho_Chi_Minh", "Australia/Lord_Howe"]
)
def test_h15_exactly_one_tick_for_each_local_date(tz):
    from zoneinfo import ZoneInfo

    moment, dates = ms("2024-12-31T12:00"), []
    while len(dates) < 400:
        moment = next_cron_tick("30 2 * * *", tz, moment)
        dates.append(datetime.fromtimestamp(moment / 1000, ZoneInfo(tz)).date())
    assert dates == sorted(set(dates))
    assert (dates[-1] - dates[0]).days == 399


@pytest.mark.parametrize("day", ["2025-10-25", "2025-03-29"])
@pytest.mark.parametrize(("pattern", "minutes"), [("0 * * * *", 60), ("*/30 * * * *", 30)])
def test_h15_what_ticks_every_hour_does_so_through_a_clock_change(day, pattern, minutes):
    """An hour that comes twice is two hours; at any minute, also inside them, the next tick is right."""
    start, step = ms(f"{day}T22:00"), minutes * 60_000
    for moment in range(start, start + 10 * 3_600_000, 60_000):
        assert next_cron_tick(pattern, "Europe/Berlin", moment) == moment // step * step + step


def test_h16_an_interval_keeps_its_phase():
    assert next_interval_tick(500, 1000, 500) == 1500
    assert next_interval_tick(500, 1000, 1499) == 1500
    assert next_interval_tick(500, 1000, 1500) == 2500
    assert next_interval_tick(500, 1000, 60_499) == 60_500


@pytest.mark.parametrize(
    ("pattern", "tz", "sentence"),
    [
        ("0 3 * *", "UTC", "five fields"), ("* * * * * *", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("0 0 30 2 *", "UTC", "can not be used"), ("61 * * * *", "UTC", "can not be used"),
        (7, "UTC", "five fields"), ("0 3 * * *", None, "whose three o'clock"),
        ("0 3 * * *", "Mars/X", "unknown time"),
        ("0 3 * * *", "../etc", "unknown time"),
    ],
)  # fmt: skip
def test_a_pattern_that_can_not_tick_is_refused(pattern, tz, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_cron(pattern, tz)
