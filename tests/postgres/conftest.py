"""A pool with the idempotency table installed, on a database of its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from qlab.postgres import idempotency

Pool = AsyncConnectionPool[AsyncConnection[Any]]


@pytest.fixture
async def pool(pg_dsn: str) -> AsyncIterator[Pool]:
    """A pool of 20 on a fresh database."""
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=20, open=False) as opened:
        async with opened.connection() as conn:
            await idempotency.install(conn)
        yield opened
