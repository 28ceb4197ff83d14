"""Takes one connection from a pool, or uses the one it is given, and says clearly when that cannot work.

A task that holds a connection of a pool and waits for a second one can wait for ever: when every holder does
so, none comes back. So a second one is refused at once, with a sentence that says what to do instead.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.statements import statement

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

Connection: TypeAlias = AsyncConnection[Any]
Source: TypeAlias = "Connection | AsyncConnectionPool[Any]"


MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)


class _Hold:
    """This task has a connection of this pool, until `active` is false."""

    def __init__(self, pool: object) -> None:
        self.pool = pool
        self.active = True


_holds: ContextVar[tuple[_Hold, ...]] = ContextVar("holds", default=())


@asynccontextmanager
async def connection(source: Source) -> AsyncIterator[Connection]:
    """The connection itself, or one of the pool's, given back at the end of the block.

    Raises ConnectionUnusable when the pool or the connection is closed, and when this task holds one of this
    pool's connections already.
    """
    if isinstance(source, AsyncConnection):
        check_open(source)
        yield source
        return
    if getattr(source, "closed", False):
        raise ConnectionUnusable("the connection pool is closed (or was never opened); open it first")
    holds = tuple(hold for hold in _holds.get() if hold.active)
    if any(hold.pool is source for hold in holds):
        raise ConnectionUnusable(
            "this task holds a connection of this pool and asks for a second one, which can hang for ever; "
            "pass the connection that you were given, not the pool"
        )
    hold = _Hold(source)
    _holds.set((*holds, hold))
    try:
        async with source.connection() as conn:
            yield conn
    finally:
        hold.active = False


@asynccontextmanager
async def transaction_on(source: Source, table: str) -> AsyncIterator[Connection]:
    """A connection in a transaction of its own; a missing `table` gets one clear sentence (NotInstalled)."""
    async with explained(table), connection(source) as conn, own_transaction(conn):
        yield conn


@asynccontextmanager
async def own_transaction(conn: Connection) -> AsyncIterator[None]:
    """A transaction that is committed at the end of the block. Refuses to be nested in an open one."""
    check_open(conn)
    status = conn.info.transaction_status
    if status in (TransactionStatus.INTRANS, TransactionStatus.ACTIVE):
        raise ConnectionUnusable(
            "the connection is inside a transaction, so this step could not commit by itself; commit or roll "
            "back first, or pass a connection with autocommit"
        )
    async with conn.transaction():
        yield


def check_open(conn: Connection) -> None:
    """Raise ConnectionUnusable when no statement can run on this connection."""
    if conn.closed:
        raise ConnectionUnusable("the connection is closed; open a new one")
    if conn.info.transaction_status == TransactionStatus.INERROR:
        raise ConnectionUnusable("an earlier statement failed in this transaction; roll it back first")


@asynccontextmanager
async def explained(table: str) -> AsyncIterator[None]:
    """Around our own statements: NotInstalled when `table` is missing or older."""
    try:
        yield
    except MISSING as error:
        raise NotInstalled(f"table {table} is missing or older; run install(conn) once") from error


async def install_tables(conn: Connection, *names: str) -> None:
    """Run these statements in one transaction. Safe to run again, and by several processes at once."""
    async with own_transaction(conn):
        await conn.execute(statement("install_lock"))
        for name in names:
            await conn.execute(statement(name))


async def fetch_all(conn: Connection, name: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows that the statement `name` returns, as dictionaries."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), values)
        return await cursor.fetchall()


async def fetch_one(conn: Connection, name: str, values: dict[str, Any]) -> dict[str, Any] | None:
    """The first row that the statement `name` returns, None if there is none."""
    rows = await fetch_all(conn, name, values)
    return rows[0] if rows else None
