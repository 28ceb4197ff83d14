"""A pool with the idempotency table installed, on a database of its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from qlab.postgres import idempotency, outbox

Pool = AsyncConnectionPool[AsyncConnection[Any]]


@pytest.fixture
async def pool(pg_dsn: str) -> AsyncIterator[Pool]:
    """A pool of 20 on a fresh database."""
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=20, open=False) as opened:
        async with opened.connection() as conn:
            await idempotency.install(conn)
        yield opened


@pytest.fixture
async def outbox_pool(pool: Pool) -> Pool:
    """The pool, with the outbox installed too."""
    async with pool.connection() as conn:
        await outbox.install(conn)
    return pool


async def nothing_left_behind(pool: Pool) -> None:
    """No session of this database keeps a transaction open or holds an advisory lock."""
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state LIKE 'idle in transaction%'"
        )
        assert await cursor.fetchone() == (0,)
        cursor = await conn.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
            "WHERE locktype = 'advisory' AND d.datname = current_database()"
        )
        assert await cursor.fetchone() == (0,)
