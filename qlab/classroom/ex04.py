"""What exercise 4 works on: a real PostgreSQL with an empty table, a job, and names for what can happen.

The learner's notebook and the grader use the same pieces, so what passes in one means the same in the other.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from qlab.classroom.texts import text
from qlab.postgres.errors import ClaimLost, KeyBusy
from qlab.testing import ProviderError

__all__ = ["Bench", "ChargeJob", "ClaimLost", "KeyBusy", "Killed", "expire", "outcome", "rows", "take_over"]

TABLE = """
CREATE TABLE idempotency_key (
    key          text PRIMARY KEY,
    status       text NOT NULL CHECK (status IN ('PENDING', 'DONE')),
    locked_until timestamptz NOT NULL,
    lock_token   uuid NOT NULL,
    result       jsonb
)
"""
_EXPIRE = """
UPDATE idempotency_key SET locked_until = clock_timestamp() - interval '1 second' WHERE status = 'PENDING'
"""
_TAKE_OVER = """
UPDATE idempotency_key
SET locked_until = clock_timestamp() + interval '10 minutes', lock_token = gen_random_uuid()
WHERE status = 'PENDING'
"""
_ROWS = "SELECT key, status, locked_until, lock_token, result FROM idempotency_key ORDER BY key"

Connection = AsyncConnection[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class ChargeJob:
    """A job as the queue hands it over: its id changes when it is added again, its data do not."""

    id: str
    data: dict[str, Any]


class Killed(BaseException):
    """Stands for SIGKILL in one process: no `except Exception` sees it."""


async def outcome(call: Awaitable[Any]) -> Any:
    """What a call of the handler came to: its value, "busy", "lost", "killed", or the provider's status."""
    try:
        return await call
    except KeyBusy:
        return "busy"
    except ClaimLost:
        return "lost"
    except Killed:
        return "killed"
    except ProviderError as error:
        return str(error.status)


async def expire(conn: Connection) -> int:
    """Let every lock run out, as time would. Returns how many there were."""
    return (await conn.execute(_EXPIRE)).rowcount


async def take_over(conn: Connection) -> int:
    """Give every lock to another worker for ten minutes, with a token of its own. Returns how many."""
    return (await conn.execute(_TAKE_OVER)).rowcount


async def rows(conn: Connection) -> list[dict[str, Any]]:
    """The rows of the table, by key."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_ROWS)
        return await cursor.fetchall()


class Bench:
    """A database of one's own with the empty table, and a pool on it."""

    def __init__(self, server: str, name: str, dsn: str, pool: AsyncConnectionPool[Connection]) -> None:
        self.pool = pool
        self._server, self._name, self._dsn = server, name, dsn

    @classmethod
    async def open(cls) -> Self:
        """Start or find PostgreSQL and make the database. Raises RuntimeError, one sentence, without one."""
        from qlab.embedded import create_database, start

        servers = start(postgres=True)
        if servers.pg_dsn is None:
            raise RuntimeError(text("exercises.no_postgres", notices=" ".join(servers.notices)))
        name = f"ex04_{uuid.uuid4().hex[:12]}"
        dsn = create_database(servers.pg_dsn, name)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(dsn, min_size=2, max_size=10, open=False)
        await pool.open()
        async with pool.connection() as conn:
            await conn.execute(TABLE)
        return cls(servers.pg_dsn, name, dsn, pool)

    async def expire(self) -> int:
        """Let every lock run out, as time would."""
        return await self._with(expire)

    async def take_over(self) -> int:
        """Another worker, B, takes every lock: token of its own, ten minutes."""
        return await self._with(take_over)

    async def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, by key."""
        return await self._with(rows)

    async def clear(self) -> None:
        """Empty the table, so that a check can run again and does not meet the keys of another."""
        await self._with(_clear)

    async def close(self) -> None:
        """Close the pool and drop the database."""
        from qlab.embedded import drop_database

        await self.pool.close()
        drop_database(self._server, self._name)

    async def _with(self, step: Callable[[Connection], Awaitable[T]]) -> T:
        """On a connection of its own: the pool may be used up by the very answer that is looked at."""
        try:
            async with await AsyncConnection.connect(
                self._dsn, autocommit=True, options="-c lock_timeout=5s"
            ) as conn:
                return await step(conn)
        except LockNotAvailable:
            raise RuntimeError(text("exercises.table_locked")) from None


async def _clear(conn: Connection) -> None:
    await conn.execute("TRUNCATE idempotency_key")
