"""Every row once: ties at the edge of a batch, rows that are committed late, kills and bad readers."""

import asyncio
import random
import uuid
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from qlab.postgres import row_cursor
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.row_cursor import Position, run_rows
from tests.postgres.conftest import Pool

READ = b"""
SELECT written_by::text AS xid, id FROM event
WHERE (written_by, id) > (%s::text::xid8, %s) AND written_by < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY written_by, id LIMIT %s
"""


@dataclass
class Event:
    xid: str
    id: int


async def read(conn: Any, after: Position, limit: int) -> list[Event]:
    async with conn.cursor(row_factory=class_row(Event)) as found:
        await found.execute(READ, [after.xid, after.id, limit])
        return list(await found.fetchall())


class Seen:
    def __init__(self) -> None:
        self.ids: list[int] = []

    async def __call__(self, conn: Any, rows: Any) -> None:
        self.ids += [row.id for row in rows]


@pytest.fixture
async def events(pool: Pool) -> Pool:
    async with pool.connection() as conn:
        await row_cursor.install(conn)
        await conn.execute(
            "CREATE TABLE event (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "written_by xid8 NOT NULL DEFAULT pg_current_xact_id())"
        )
    return pool


async def insert(conn: Any, n: int = 1) -> list[int]:
    found = await conn.execute("INSERT INTO event SELECT FROM generate_series(1, %s) RETURNING id", [n])
    return [id for (id,) in await found.fetchall()]


async def read_all(pool: Pool, seen: Seen, wanted: int, limit: int = 500) -> None:
    """Until that many rows were seen; transactions elsewhere on the server may hold the reader up."""
    async with asyncio.timeout(90):
        while len(seen.ids) < wanted:
            await run_rows(pool, "r", read, seen, limit=limit)
            await asyncio.sleep(0.01)


async def test_rows_of_one_transaction_are_ties_and_none_is_lost_at_the_edge(events: Pool) -> None:
    async with events.connection() as conn:
        ids = await insert(conn, 25)
    seen = Seen()
    await read_all(events, seen, 25, limit=10)
    assert seen.ids == ids
    assert await run_rows(events, "r", read, seen) == 0


async def test_a_row_that_is_committed_late_is_not_left_behind(events: Pool, pg_dsn: str) -> None:
    seen = Seen()
    async with await AsyncConnection.connect(pg_dsn) as late:
        (first,) = await insert(late)
        async with events.connection() as conn:
            (second,) = await insert(conn)
        assert first < second
        assert await run_rows(events, "r", read, seen) == 0  # the later one waits for the earlier one
        await late.commit()
    await read_all(events, seen, 2)
    assert seen.ids == [first, second]


async def test_every_committed_row_once_under_load(events: Pool) -> None:
    rng, committed, seen = random.Random(5), list[int](), Seen()

    async def writer() -> None:
        for _ in range(8):
            async with events.connection() as conn:
                ids = await insert(conn, rng.randint(1, 5))
                await asyncio.sleep(rng.random() * 0.03)
                if rng.random() < 0.2:
                    await conn.rollback()
                else:
                    await conn.commit()
                    committed.extend(ids)

    async def reader(stop: asyncio.Event) -> None:
        while not stop.is_set():
            await run_rows(events, "r", read, seen, limit=7)
            await asyncio.sleep(0.005)

    stop = asyncio.Event()
    readers = [asyncio.create_task(reader(stop)) for _ in range(2)]
    await asyncio.gather(*(writer() for _ in range(10)))
    stop.set()
    await asyncio.gather(*readers)
    await read_all(events, seen, len(committed))
    assert sorted(seen.ids) == sorted(committed)


async def test_a_batch_that_fails_comes_again(events: Pool) -> None:
    async with events.connection() as conn:
        ids = await insert(conn, 3)
    seen = Seen()

    async def fails(conn: Any, rows: Any) -> None:
        await conn.execute("CREATE TABLE made (id int)")
        raise RuntimeError("no")

    async def read_until_it_fails() -> None:
        async with asyncio.timeout(60):
            while True:
                await run_rows(events, "r", read, fails)
                await asyncio.sleep(0.01)

    with pytest.raises(RuntimeError, match="no"):
        await read_until_it_fails()
    await read_all(events, seen, 3)
    assert seen.ids == ids
    async with events.connection() as conn:
        assert await (await conn.execute("SELECT to_regclass('made')")).fetchone() == (None,)


async def test_a_reader_that_goes_backwards_is_refused(events: Pool) -> None:
    async def backwards(conn: Any, after: Position, limit: int) -> list[Event]:
        return [Event("9", 2), Event("9", 1)]

    async def stands(conn: Any, after: Position, limit: int) -> list[Event]:
        return [Event("0", 0)]

    for wrong in (backwards, stands):
        with pytest.raises(ValueError, match="ordered by"):
            await run_rows(events, "r", wrong, Seen())
    for bad, says in (({"limit": 0}, "limit"), ({"name": ""}, "cursor name")):
        with pytest.raises(ValueError, match=says):
            await run_rows(**{"source": events, "name": "r", "read": read, "handle": Seen()} | bad)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"xid": "5", "id": 1}], "attributes xid.*namedtuple_row"),
        ([("5", 1)], "attributes xid.*namedtuple_row"),
        ([Event("5", None)], "id must be a whole number"),  # type: ignore[arg-type]
        ([Event("5", uuid.UUID(int=1))], "id must be a whole number"),  # type: ignore[arg-type]
        ([Event("five", 1)], "attributes xid"),
        ([Event(str(2**64), 1)], "xid must be a whole number"),
        ([Event("5", 2**63)], "id must be a whole number"),
        ([Event("5", 1), Event("5", 1)], "ordered by"),
        (None, "a list of rows, not NoneType"),
    ],
)
async def test_rows_that_are_none_are_refused_before_they_are_handled(
    events: Pool, rows: Any, says: str
) -> None:
    async def bad(conn: Any, after: Position, limit: int) -> Any:
        return rows

    seen = Seen()
    with pytest.raises(ValueError, match=says):
        await run_rows(events, "r", bad, seen)
    assert seen.ids == []


async def test_a_cursor_from_another_server_is_refused_and_can_be_put_right(events: Pool) -> None:
    """Where a dump was restored, the numbers of transactions begin again: new rows would stand behind it."""
    seen = Seen()
    async with events.connection() as conn:
        await insert(conn, 3)
        await conn.execute("UPDATE event SET written_by = '9000000000'")  # as the dump has them
    assert await run_rows(events, "r", read, seen) == 0
    async with events.connection() as conn:
        await conn.execute("UPDATE row_cursor SET xid = '9000000000', id = 3")
    with pytest.raises(row_cursor.CursorAhead, match="transaction 9000000000, not yet begun by this server"):
        await run_rows(events, "r", read, seen)
    async with events.connection() as conn:  # what the documentation says
        await conn.execute("UPDATE event SET written_by = '0'")
        await conn.execute("UPDATE row_cursor SET xid = '0', id = (SELECT max(id) FROM event)")
    async with events.connection() as conn:
        await insert(conn, 1)
    await read_all(events, seen, 1)
    assert seen.ids == [4]


async def test_a_missing_table_says_install(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        with pytest.raises(NotInstalled, match="row_cursor is missing"):
            await run_rows(conn, "r", read, Seen())


async def test_connections_that_cannot_work_say_so_and_a_pool_of_one_works(events: Pool, pg_dsn: str) -> None:
    async with events.connection() as conn:
        await insert(conn, 2)
    async with await AsyncConnection.connect(pg_dsn) as conn:
        await conn.execute("SELECT 1")
        with pytest.raises(ConnectionUnusable, match="inside a transaction"):
            await run_rows(conn, "r", read, Seen())
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("SELECT 1/0")
        with pytest.raises(ConnectionUnusable, match="roll it back"):
            await run_rows(conn, "r", read, Seen())
    with pytest.raises(ConnectionUnusable, match="closed"):
        await run_rows(conn, "r", read, Seen())
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=1, timeout=20, open=False) as single:
        seen = Seen()
        await read_all(single, seen, 2, limit=1)
    assert len(seen.ids) == 2
    with pytest.raises(ConnectionUnusable, match="pool is closed"):
        await run_rows(single, "r", read, Seen())
