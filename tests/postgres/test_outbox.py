"""Writing to the outbox, its lag, its clean-up, and clear errors for what cannot work."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from qlab.postgres import outbox
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.statements import statement
from tests.postgres.conftest import Pool

NOON = datetime(2026, 10, 9, 12, 0, tzinfo=UTC)


async def rows(pool: Pool, columns: str = "id") -> list[tuple[Any, ...]]:
    async with pool.connection() as conn:
        cursor = await conn.execute(f"SELECT {columns} FROM outbox ORDER BY id".encode())
        return await cursor.fetchall()


@pytest.mark.parametrize("commits", [True, False])
async def test_message_shares_the_fate_of_the_data(outbox_pool: Pool, commits: bool) -> None:
    async with outbox_pool.connection() as conn:
        await conn.execute("CREATE TABLE orders (id int)")
    async with outbox_pool.connection() as conn:
        await conn.execute("INSERT INTO orders VALUES (1)")
        await outbox.write(conn, "order.created", {"order": 1})
        await (conn.commit() if commits else conn.rollback())
    async with outbox_pool.connection() as conn:
        orders = await (await conn.execute("SELECT count(*) FROM orders")).fetchone()
    assert orders == (len(await rows(outbox_pool)),) == (int(commits),)


async def test_cleanup_deletes_what_was_published_long_ago_and_nothing_else(outbox_pool: Pool) -> None:
    """The chapter's three rows: published 8 days ago, published yesterday, never published."""
    async with outbox_pool.connection() as conn:
        for days in (8, 1, None):
            row = await outbox.write(conn, "t", days, now=NOON - timedelta(days=30))
            published = None if days is None else NOON - timedelta(days=days)
            await conn.execute("UPDATE outbox SET published_at = %s WHERE id = %s", [published, row])
    assert await outbox.cleanup(outbox_pool, now=NOON) == 1
    assert [payload for (payload,) in await rows(outbox_pool, "payload")] == [1, None]
    assert await outbox.cleanup(outbox_pool, now=NOON) == 0


async def test_cleanup_works_in_small_transactions_beside_another(outbox_pool: Pool) -> None:
    async with outbox_pool.connection() as conn:
        await conn.execute(
            "INSERT INTO outbox (topic, payload, published_at) "
            "SELECT 't', '1', now() - interval '9 days' FROM generate_series(1, 250)"
        )
    counts = await asyncio.gather(*(outbox.cleanup(outbox_pool, batch=10) for _ in range(3)))
    assert await rows(outbox_pool) == []
    assert sum(counts) == 250


async def test_only_live_rows_are_read_however_many_are_done(outbox_pool: Pool) -> None:
    async with outbox_pool.connection() as conn:
        await conn.execute(
            "INSERT INTO outbox (topic, payload, published_at) "
            "SELECT 't', '1', now() FROM generate_series(1, 20000)"
        )
        for _ in range(10):
            await outbox.write(conn, "t", 1)
        await conn.commit()
        await conn.set_autocommit(True)
        await conn.execute("VACUUM ANALYZE outbox")
        cursor = await conn.execute(b"EXPLAIN " + statement("outbox_take"), {"batch": 100, "now": None})
        plan = "\n".join(line for (line,) in await cursor.fetchall())
        await conn.set_autocommit(False)
    assert "outbox_live" in plan
    assert "Seq Scan" not in plan


async def test_lag_is_the_age_of_the_oldest_live_row(outbox_pool: Pool) -> None:
    assert await outbox.lag(outbox_pool) == outbox.Lag(0, 0, 0.0)
    async with outbox_pool.connection() as conn:
        dead = await outbox.write(conn, "t", 1, now=NOON - timedelta(hours=9))
        for seconds in (90, 30):
            await outbox.write(conn, "t", 1, now=NOON - timedelta(seconds=seconds))
        await conn.execute("UPDATE outbox SET dead_at = now(), last_error = 'x' WHERE id = %s", [dead])
    assert await outbox.lag(outbox_pool, now=NOON) == outbox.Lag(2, 1, 90.0)


@pytest.mark.parametrize(
    ("topic", "payload", "says"),
    [
        ("", 1, "topic"),
        ("t" * 256, 1, "topic"),
        ("a\x00b", 1, "NUL"),
        (None, 1, "topic"),
        ("t", {"a": "x\x00"}, "NUL"),
        ("t", float("nan"), "strict JSON"),
        ("t", {1: 2}, "changed"),
        ("t", datetime(2026, 1, 1, tzinfo=UTC), "strict JSON"),
        ("t", "x" * 70_000, "limit of 65536"),
    ],
)
async def test_bad_messages_are_refused(outbox_pool: Pool, topic: Any, payload: Any, says: str) -> None:
    async with outbox_pool.connection() as conn:
        with pytest.raises(ValueError, match=says):
            await outbox.write(conn, topic, payload)
        await outbox.write(conn, "good", 1)  # the transaction is still usable
    assert len(await rows(outbox_pool)) == 1


async def test_connections_that_cannot_work_say_so(outbox_pool: Pool, pg_dsn: str) -> None:
    with pytest.raises(TypeError, match="connection of your transaction"):
        await outbox.write(outbox_pool, "t", 1)  # type: ignore[arg-type]
    async with await AsyncConnection.connect(pg_dsn, autocommit=True) as conn:
        with pytest.raises(ConnectionUnusable, match="commits by itself"):
            await outbox.write(conn, "t", 1)
        async with conn.transaction():
            await outbox.write(conn, "t", 1)
        with pytest.raises(ValueError, match="time zone"):
            await outbox.write(conn, "t", 1, now=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ConnectionUnusable, match="closed"):
        await outbox.write(conn, "t", 1)
    async with await AsyncConnection.connect(pg_dsn) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("SELECT 1 / 0")
        for step in (outbox.write(conn, "t", 1), outbox.lag(conn), outbox.cleanup(conn)):
            with pytest.raises(ConnectionUnusable, match="roll it back"):
                await step
    for keep in (timedelta(seconds=-1), float("nan"), "7 days"):
        with pytest.raises(ValueError, match="keep"):
            await outbox.cleanup(outbox_pool, keep)  # type: ignore[arg-type]


async def test_a_missing_table_says_install(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        for step in (outbox.lag(conn), outbox.cleanup(conn), outbox.replay(conn)):
            with pytest.raises(NotInstalled, match=r"outbox is missing.*install"):
                await step
            assert conn.info.transaction_status.name == "IDLE"
        with pytest.raises(NotInstalled, match="install"):
            await outbox.write(conn, "t", 1)


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("published_at = now(), dead_at = now(), last_error = 'x'", "outbox_one_end"),
        ("dead_at = now()", "outbox_dead_says_why"),
        ("attempts = -1", "outbox_attempts_not_negative"),
        ("topic = ''", "outbox_topic_length"),
    ],
)
async def test_the_table_refuses_states_that_cannot_be(
    outbox_pool: Pool, change: str, constraint: str
) -> None:
    async with outbox_pool.connection() as conn:
        await outbox.write(conn, "t", 1)
        with pytest.raises(psycopg.errors.CheckViolation) as caught:
            await conn.execute(f"UPDATE outbox SET {change}".encode())
        await conn.rollback()
    assert caught.value.diag.constraint_name == constraint


async def test_install_many_times_at_once(pg_dsn: str) -> None:
    async def once() -> None:
        async with await AsyncConnection.connect(pg_dsn) as conn:
            await outbox.install(conn)

    await asyncio.gather(*(once() for _ in range(10)))
