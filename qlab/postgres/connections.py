"""Takes one connection from a pool, or uses the one it is given, and says clearly when that cannot work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from qlab.postgres.errors import ConnectionUnusable

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

Connection: TypeAlias = AsyncConnection[Any]
Source: TypeAlias = "Connection | AsyncConnectionPool[Any]"


@asynccontextmanager
async def connection(source: Source) -> AsyncIterator[Connection]:
    """The connection itself, or one of the pool's, given back at the end of the block.

    Raises ConnectionUnusable when the pool or the connection is closed.
    """
    if isinstance(source, AsyncConnection):
        check_open(source)
        yield source
        return
    if getattr(source, "closed", False):
        raise ConnectionUnusable("the connection pool is closed (or was never opened); open it first")
    async with source.connection() as conn:
        yield conn


@asynccontextmanager
async def own_transaction(conn: Connection) -> AsyncIterator[None]:
    """A transaction that is committed at the end of the block. Refuses to be nested in an open one."""
    check_open(conn)
    status = conn.info.transaction_status
    if status in (TransactionStatus.INTRANS, TransactionStatus.ACTIVE):
        raise ConnectionUnusable(
            "the connection is inside a transaction, so this step would not be committed before the effect "
            "runs; commit or roll back first, or pass a connection with autocommit"
        )
    async with conn.transaction():
        yield


def check_open(conn: Connection) -> None:
    """Raise ConnectionUnusable when no statement can run on this connection."""
    if conn.closed:
        raise ConnectionUnusable("the connection is closed; open a new one")
    if conn.info.transaction_status == TransactionStatus.INERROR:
        raise ConnectionUnusable("an earlier statement failed in this transaction; roll it back first")


MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
