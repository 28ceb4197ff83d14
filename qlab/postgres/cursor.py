"""Work by range of data, not by time of day: a cursor remembers the last day that is done.

    async def roll_up(conn, day):      # write the day's row over the old one, never add to it
        await conn.execute("INSERT INTO daily ... WHERE at >= %s AND at < %s ON CONFLICT (day) DO UPDATE ...",
                           [day.start, day.end])

    days = await run_rollup(pool, "daily-sales", roll_up, zone="Asia/Ho_Chi_Minh", start=date(2026, 10, 1))

However often it is called, and however long nobody called it, each day that has ended is rolled up once and
in order; only a crash repeats one. What `roll_up` writes through its `conn` is committed together with the
cursor. What it writes elsewhere may be there twice, so it has to overwrite.

A day that fails stops the roll-up there, on purpose: the days after it may build on it. The error goes to the
caller at every call. Whoever decides to give the day up, or wants days again because rows came late, moves
the cursor with `set_cursor`; since days are overwritten, going back is harmless.
"""

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from qlab.errors import QlabError
from qlab.postgres.connections import (
    Connection,
    Source,
    check_open,
    connection,
    explained,
    fetch_one,
    install_tables,
    own_transaction,
    touched,
    transaction_on,
)
from qlab.postgres.days import ONE_DAY, Day, day_in, zone_of
from qlab.postgres.values import aware, function, short_text, whole
from qlab.retry import Seconds, seconds
from qlab.tasks import outcome_of

__all__ = ["CursorMoved", "Day", "day_in", "install", "run_rollup", "set_cursor", "zone_of"]

TABLE = "day_cursor"


class CursorMoved(QlabError):
    """The cursor was not on the day before any more: what was written for the day is rolled back."""


async def install(conn: Connection) -> None:
    """Create the table if it is not there. Safe to run again, and by several processes at once."""
    await install_tables(conn, "day_cursor_table")


async def run_rollup(
    source: Source,
    name: str,
    roll_up: Callable[[Connection, Day], Awaitable[Any]],
    *,
    zone: str,
    start: date,
    settle: Seconds = 0,
    max_days: int | None = None,
    now: datetime | None = None,
) -> list[date]:
    """Roll up every day that has ended in `zone` and is not done yet, the oldest first; return them.

    start:    the first day of all, used when the cursor does not exist yet.
    settle:   seconds after its end before a day counts as ended, for rows that arrive late.
    max_days: stop after so many days; the next call goes on from there.
    now:      an aware datetime instead of the server's clock.
    Returns [] at once while another instance works on the same cursor. Raises what `roll_up` raises,
    ValueError for bad input or a cursor that was begun in another zone, NotInstalled, ConnectionUnusable.
    """
    function(roll_up, "roll_up")
    place, wait = zone_of(zone), seconds(settle, "settle")
    most = None if max_days is None else whole(max_days, "max_days")
    values = {"name": short_text(name, "cursor name"), "now": aware(now)}
    first = {"name": name, "zone": zone, "last_day": day_in(place, start).date - ONE_DAY}
    done: list[date] = []
    async with connection(source) as conn:
        async with transaction_on(conn, TABLE):
            await touched(conn, "day_cursor_create", first)
        while most is None or len(done) < most:
            async with own_transaction(conn):
                day = await _next_day(conn, values, place, wait)
                if day is None:
                    break
                await outcome_of(roll_up, conn, day)
                await _move(conn, name, day)
            done.append(day.date)
    return done


async def set_cursor(source: Source, name: str, last_day: date) -> None:
    """Make `last_day` the last day that counts as done: earlier to do days again, later to give days up.

    Raises LookupError when there is no such cursor.
    """
    values = {"name": short_text(name, "cursor name"), "last_day": day_in(zone_of("UTC"), last_day).date}
    async with transaction_on(source, TABLE) as conn:
        if await touched(conn, "day_cursor_set", values) == 0:
            raise LookupError(f"there is no cursor {name!r}; run_rollup makes it")


async def _next_day(conn: Connection, values: dict[str, Any], zone: ZoneInfo, settle: float) -> Day | None:
    """The day after the cursor, if it has ended and nobody else works on it. Locks the cursor."""
    async with explained(TABLE):
        row = await fetch_one(conn, "day_cursor_hold", values)
    if row is None:
        return None
    if row["zone"] != zone.key:
        raise ValueError(
            f"cursor {values['name']!r} counts days of {row['zone']}, not of {zone.key}: other days would "
            "overlap with those that are done; use another name"
        )
    day = day_in(zone, row["last_day"] + ONE_DAY)
    return day if (row["now"] - day.end).total_seconds() >= settle else None


async def _move(conn: Connection, name: str, day: Day) -> None:
    check_open(conn)
    if await touched(conn, "day_cursor_move", {"name": name, "day": day.date}) == 0:
        raise CursorMoved(f"cursor {name!r} is not on the day before {day.date} any more; the day is undone")
