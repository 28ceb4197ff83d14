"""Roll-ups by ended days of a zone: each day once, in order, whatever was missed, killed or run twice."""

import asyncio
import signal
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from qlab.postgres import cursor
from qlab.postgres.cursor import CursorMoved, Day, day_in, run_rollup, set_cursor, zone_of
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from tests.postgres.conftest import Pool, nothing_left_behind

SECOND = date(2026, 10, 2)
FIFTH_3AM = datetime(2026, 10, 5, 3, tzinfo=UTC)
OPTIONS: dict[str, Any] = {"zone": "UTC", "start": SECOND, "now": FIFTH_3AM}
DYING = """
import asyncio, os, signal, sys
from datetime import UTC, date, datetime
from psycopg import AsyncConnection
from qlab.postgres.cursor import run_rollup
async def roll_up(conn, day):
    await conn.execute("INSERT INTO daily VALUES (%s, 1) ON CONFLICT (day) DO UPDATE SET n = 1", [day.date])
    async with await AsyncConnection.connect(sys.argv[1], autocommit=True) as outside:
        await outside.execute("INSERT INTO calls VALUES (%s)", [day.date])
    if sys.argv[2] == str(day.date):
        os.kill(os.getpid(), signal.SIGKILL)
async def main():
    conn = await AsyncConnection.connect(sys.argv[1])
    await run_rollup(conn, "daily", roll_up, zone="UTC", start=date(2026, 10, 2),
                     now=datetime(2026, 10, 5, 3, tzinfo=UTC))
asyncio.run(main())
"""


class Calls:
    """A roll-up that notes its days, and fails on those of `bad`."""

    def __init__(self, *bad: date) -> None:
        self.days: list[date] = []
        self.bad = bad

    async def __call__(self, conn: Any, day: Day) -> None:
        self.days.append(day.date)
        if day.date in self.bad:
            raise RuntimeError("cannot read")


@pytest.fixture
async def days_pool(pool: Pool) -> Pool:
    async with pool.connection() as conn:
        await cursor.install(conn)
        await conn.execute("CREATE TABLE daily (day date PRIMARY KEY, n bigint)")
        await conn.execute("CREATE TABLE calls (day date)")
    return pool


async def select(pool: Pool, sql: str) -> list[tuple[Any, ...]]:
    async with pool.connection() as conn:
        return await (await conn.execute(sql.encode())).fetchall()


def october(*days: int) -> list[date]:
    return [date(2026, 10, day) for day in days]


async def test_missed_days_once_each_then_none(days_pool: Pool) -> None:
    """The chapter's figures: cursor on 1 October, now the 5th, 03:00."""
    calls = Calls()
    assert await run_rollup(days_pool, "daily", calls, **OPTIONS) == october(2, 3, 4)
    assert await run_rollup(days_pool, "daily", calls, **OPTIONS) == []
    assert calls.days == october(2, 3, 4)


async def test_killed_in_the_middle_of_day_three(days_pool: Pool, pg_dsn: str) -> None:
    """The chapter's figures: day 3 twice, the cursor ends on the 4th; what the killed one wrote is undone."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, pg_dsn, "2026-10-03")
    assert await child.wait() == -signal.SIGKILL
    assert await select(days_pool, "SELECT day FROM daily") == [(date(2026, 10, 2),)]
    async with asyncio.timeout(60):  # the server notices the death by itself
        while await select(days_pool, "SELECT 1 FROM day_cursor WHERE last_day < '2026-10-04'"):
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, pg_dsn, "never")
            assert await child.wait() == 0
    days = [day for (day,) in await select(days_pool, "SELECT day FROM calls ORDER BY day")]
    assert days == october(2, 3, 3, 4)
    assert await select(days_pool, "SELECT last_day FROM day_cursor") == [(date(2026, 10, 4),)]
    assert await select(days_pool, "SELECT count(*), sum(n) FROM daily") == [(3, 3)]
    await nothing_left_behind(days_pool)


async def test_a_day_that_fails_stops_there_until_somebody_decides(days_pool: Pool) -> None:
    calls = Calls(date(2026, 10, 3))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot read"):
            await run_rollup(days_pool, "daily", calls, **OPTIONS)
    assert calls.days == october(2, 3, 3)
    await set_cursor(days_pool, "daily", date(2026, 10, 3))
    assert await run_rollup(days_pool, "daily", calls, **OPTIONS) == october(4)


async def test_late_rows_are_read_by_going_back_and_overwriting(days_pool: Pool) -> None:
    async with days_pool.connection() as conn:
        await conn.execute("CREATE TABLE event (at timestamptz)")
        await conn.execute("INSERT INTO event VALUES ('2026-10-02 10:00Z'), ('2026-10-03 00:00Z')")
    await run_rollup(days_pool, "daily", count_events, **OPTIONS)
    async with days_pool.connection() as conn:
        await conn.execute("INSERT INTO event VALUES ('2026-10-02 23:59:59.999999Z')")
    await set_cursor(days_pool, "daily", date(2026, 10, 1))
    assert await run_rollup(days_pool, "daily", count_events, **OPTIONS) == october(2, 3, 4)
    found = await select(days_pool, "SELECT n FROM daily ORDER BY day")
    assert found == [(2,), (1,), (0,)]


async def count_events(conn: Any, day: Day) -> None:
    await conn.execute(
        "INSERT INTO daily SELECT %(date)s, count(*) FROM event WHERE at >= %(start)s AND at < %(end)s "
        "ON CONFLICT (day) DO UPDATE SET n = excluded.n",
        vars(day),
    )


@pytest.mark.parametrize(
    ("first", "last", "short", "n"),
    [
        (date(2025, 3, 28), date(2025, 4, 1), date(2025, 3, 30), 1380),
        (date(2025, 10, 24), date(2025, 10, 28), date(2025, 10, 26), 1500),
    ],
)
async def test_h25_days_of_23_and_25_hours(
    days_pool: Pool, first: date, last: date, short: date, n: int
) -> None:
    berlin, days = zone_of("Europe/Berlin"), (last - first).days + 1
    bounds = (day_in(berlin, first).start, day_in(berlin, last).end)
    async with days_pool.connection() as conn:
        await conn.execute(
            "CREATE TABLE event AS SELECT generate_series(%s::timestamptz, "
            "%s::timestamptz - interval '1 min', '1 min') AS at",
            bounds,
        )

    async def dies_once(conn: Any, day: Day) -> None:
        await count_events(conn, day)
        if day.date == short and not died:
            died.append(1)
            raise RuntimeError("crash")

    died: list[int] = []
    options: dict[str, Any] = {"zone": "Europe/Berlin", "start": first}
    with pytest.raises(RuntimeError, match="crash"):
        await run_rollup(days_pool, "b", dies_once, now=bounds[1], **options)
    again = await run_rollup(days_pool, "b", dies_once, now=bounds[1] - timedelta(microseconds=1), **options)
    assert again == [short, *(short + timedelta(days=d) for d in range(1, (last - short).days))]
    assert await run_rollup(days_pool, "b", dies_once, now=bounds[1], **options) == [last]
    found = dict(await select(days_pool, "SELECT day, n FROM daily"))
    assert found.pop(short) == n
    assert list(found.values()) == [1440] * (days - 1)
    assert n + sum(found.values()) == (await select(days_pool, "SELECT count(*) FROM event"))[0][0]


def test_h25_days_are_pairs_of_instants() -> None:
    def bounds(zone: str, day: date) -> tuple[str, str]:
        found = day_in(zone_of(zone), day)
        return f"{found.start:%d %H:%MZ}", f"{found.end:%d %H:%MZ}"

    assert bounds("Europe/Berlin", date(2025, 3, 30)) == ("29 23:00Z", "30 22:00Z")
    assert bounds("Europe/Berlin", date(2025, 10, 26)) == ("25 22:00Z", "26 23:00Z")
    assert bounds("UTC", date(2025, 10, 25)) == ("25 00:00Z", "26 00:00Z")
    assert bounds("Asia/Ho_Chi_Minh", SECOND) == ("01 17:00Z", "02 17:00Z")
    assert bounds("Africa/Cairo", date(2025, 4, 25)) == ("24 22:00Z", "25 21:00Z")  # 00:00 does not exist
    assert bounds("America/Havana", date(2025, 11, 2)) == ("02 04:00Z", "03 05:00Z")  # 00:00 comes twice
    assert bounds("America/Sao_Paulo", date(2018, 11, 4)) == ("04 03:00Z", "05 02:00Z")  # begins at 01:00
    assert bounds("America/Sao_Paulo", date(2018, 2, 17)) == ("17 02:00Z", "18 03:00Z")  # 23:00 comes twice
    assert bounds("America/Nuuk", date(2024, 10, 26)) == ("26 01:00Z", "27 02:00Z")  # 23:00 comes twice
    assert bounds("Asia/Beirut", date(2021, 3, 28)) == ("27 22:00Z", "28 21:00Z")
    assert bounds("Australia/Lord_Howe", date(2025, 4, 6)) == ("05 13:00Z", "06 13:30Z")  # half an hour
    assert bounds("Asia/Kathmandu", date(1969, 12, 31)) == ("30 18:30Z", "31 18:30Z")  # before the epoch
    assert bounds("Pacific/Apia", date(2011, 12, 30)) == ("30 10:00Z", "30 10:00Z")  # a day left out
    for zone in ("Europe/Berlin", "Africa/Cairo", "America/Havana", "America/Sao_Paulo", "Pacific/Apia"):
        day = date(2010, 1, 1)
        while day < date(2013, 1, 1):
            here, following = day_in(zone_of(zone), day), day_in(zone_of(zone), day + timedelta(days=1))
            assert here.end == following.start >= here.start
            day = following.date


async def test_a_day_that_has_not_ended_is_never_touched(days_pool: Pool) -> None:
    options: dict[str, Any] = {"zone": "Asia/Ho_Chi_Minh", "start": SECOND}
    end = datetime(2026, 10, 2, 17, tzinfo=UTC)
    calls = Calls()
    assert await run_rollup(days_pool, "d", calls, now=end - timedelta(microseconds=1), **options) == []
    assert await run_rollup(days_pool, "d", calls, now=end, settle=3600, **options) == []
    assert await run_rollup(days_pool, "d", calls, now=end, **options) == [SECOND]
    assert await run_rollup(days_pool, "d", calls, now=end - timedelta(days=9), **options) == []


async def test_the_servers_clock_is_used_when_no_time_is_given(days_pool: Pool) -> None:
    ((today,),) = await select(days_pool, "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    done = await run_rollup(days_pool, "d", Calls(), zone="UTC", start=today - timedelta(days=2))
    assert done[:2] == [today - timedelta(days=2), today - timedelta(days=1)]


async def test_many_instances_at_once_do_each_day_once(days_pool: Pool) -> None:
    calls = Calls()

    async def slow(conn: Any, day: Day) -> None:
        await calls(conn, day)
        await asyncio.sleep(0.02)

    async with asyncio.timeout(60):
        while len(calls.days) < 3:
            await asyncio.gather(*(run_rollup(days_pool, "daily", slow, **OPTIONS) for _ in range(8)))
    assert calls.days == october(2, 3, 4)
    assert await run_rollup(days_pool, "daily", calls, max_days=1, **OPTIONS | {"now": None}) == october(5)


async def test_a_cursor_moved_meanwhile_undoes_the_day(days_pool: Pool) -> None:
    async def meddles(conn: Any, day: Day) -> None:
        await conn.execute("INSERT INTO daily VALUES (%s, 1)", [day.date])
        await conn.execute("UPDATE day_cursor SET last_day = '2026-12-31'")

    with pytest.raises(CursorMoved, match="undone"):
        await run_rollup(days_pool, "daily", meddles, **OPTIONS)
    assert await select(days_pool, "SELECT * FROM daily") == []
    assert await select(days_pool, "SELECT last_day FROM day_cursor") == [(date(2026, 10, 1),)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"zone": "Mars/Olympus"}, "unknown time zone"),
        ({"zone": "../etc/passwd"}, "unknown time zone"),
        ({"zone": "Europe"}, "unknown time zone"),
        ({"zone": None}, "unknown time zone"),
        ({"now": datetime(2026, 10, 5, 3)}, "time zone"),  # noqa: DTZ001
        ({"start": FIFTH_3AM}, r"datetime\.date"),
        ({"start": date.min}, "too near"),
        ({"start": date.max}, "too near"),
        ({"settle": -1}, "settle"),
        ({"max_days": 0}, "max_days"),
        ({"name": "a\x00b"}, "NUL"),
        ({"name": ""}, "cursor name"),
    ],
)
async def test_bad_input_is_refused(days_pool: Pool, bad: dict[str, Any], says: str) -> None:
    given = {"name": "daily", **OPTIONS, **bad}
    with pytest.raises(ValueError, match=says):
        await run_rollup(days_pool, given.pop("name"), Calls(), **given)
    assert await select(days_pool, "SELECT * FROM day_cursor") == []


async def test_another_zone_under_the_same_name_is_refused(days_pool: Pool) -> None:
    await run_rollup(days_pool, "daily", Calls(), **OPTIONS)
    with pytest.raises(ValueError, match="use another name"):
        await run_rollup(days_pool, "daily", Calls(), **OPTIONS | {"zone": "Asia/Ho_Chi_Minh"})
    with pytest.raises(LookupError, match="no cursor"):
        await set_cursor(days_pool, "other", SECOND)


async def test_connections_that_cannot_work_say_so(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        with pytest.raises(NotInstalled, match="install"):
            await run_rollup(conn, "daily", Calls(), **OPTIONS)
        with pytest.raises(NotInstalled, match="install"):
            await set_cursor(conn, "daily", SECOND)
        await cursor.install(conn)

        async def missing(conn: Any, day: Day) -> None:
            await conn.execute("SELECT * FROM not_ours")

        with pytest.raises(psycopg.errors.UndefinedTable, match="not_ours"):
            await run_rollup(conn, "daily", missing, **OPTIONS)
        await conn.execute("SELECT 1")
        with pytest.raises(ConnectionUnusable, match="inside a transaction"):
            await run_rollup(conn, "daily", Calls(), **OPTIONS)
    with pytest.raises(ConnectionUnusable, match="closed"):
        await run_rollup(conn, "daily", Calls(), **OPTIONS)
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=1, timeout=20, open=False) as single:
        assert await run_rollup(single, "daily", Calls(), **OPTIONS) == october(2, 3, 4)
