"""Takes one connection from a pool, or uses the one it is given, and says clearly when that cannot work.

A task that holds a connection of a pool and waits for a second one can wait for ever: when every holder does
so, none comes back. So a second one is refused at once, with a sentence that says what to do instead.
"""

import inspect
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, AsyncRawCursor, IsolationLevel
from psycopg.pq import PipelineStatus, TransactionStatus
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
    pool's connections already; TypeError for anything else, such as a connection without asyncio.
    """
    if isinstance(source, AsyncConnection):
        check_open(source)
        yield source
        return
    if not hasattr(source, "getconn") or not inspect.iscoroutinefunction(source.getconn):
        raise TypeError(f"pass psycopg's AsyncConnection or AsyncConnectionPool, not {type(source).__name__}")
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
async def joined_transaction(source: Source, table: str) -> AsyncIterator[Connection]:
    """A connection inside its open transaction (a savepoint), or in one of its own where none is open."""
    async with explained(table), connection(source) as conn:
        check_open(conn)
        idle = conn.info.transaction_status == TransactionStatus.IDLE
        async with own_transaction(conn) if idle else conn.transaction():
            yield conn


@asynccontextmanager
async def own_transaction(conn: Connection) -> AsyncIterator[None]:
    """A transaction that is committed at the end of the block. Refuses to be nested in an open one.

    It is READ COMMITTED, whatever the default of the session: under the other levels the snapshot is older
    than the lock that we wait for, so it would not show what the last holder of the lock wrote.
    Raises ConnectionUnusable when the block did not leave the transaction as a whole to us.
    """
    check_open(conn)
    if conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.ACTIVE):
        raise ConnectionUnusable(
            "the connection is inside a transaction, so this step could not commit by itself; commit or roll "
            "back first, or pass a connection with autocommit"
        )
    earlier = conn.isolation_level
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    try:
        async with conn.transaction():
            yield
            _check_whole(conn)
    finally:
        if conn.info.transaction_status == TransactionStatus.IDLE:
            await conn.set_isolation_level(earlier)


def _check_whole(conn: Connection) -> None:
    # PostgreSQL would answer COMMIT by ROLLBACK, and that is no error
    if conn.info.transaction_status == TransactionStatus.INERROR:
        raise ConnectionUnusable(
            "a statement failed in this transaction and its error was swallowed, so nothing of it is kept; "
            "put what may fail into `async with conn.transaction():`, a savepoint"
        )
    if conn.info.transaction_status == TransactionStatus.IDLE:
        raise ConnectionUnusable(
            "the transaction was ended inside, by COMMIT or ROLLBACK, and its locks with it; leave that out"
        )


def check_open(conn: Connection) -> None:
    """Raise ConnectionUnusable when no statement can run on this connection, or its texts are not UTF-8."""
    if conn.closed:
        raise ConnectionUnusable("the connection is closed; open a new one")
    if conn.info.transaction_status == TransactionStatus.INERROR:
        raise ConnectionUnusable("an earlier statement failed in this transaction; roll it back first")
    if conn.info.encoding != "utf-8":
        raise ConnectionUnusable(
            f"the connection's client_encoding is {conn.info.parameter_status('client_encoding')}, in which "
            "texts may not arrive as they were written; add client_encoding=utf8 to its DSN"
        )


@asynccontextmanager
async def explained(table: str) -> AsyncIterator[None]:
    """Around our own statements: NotInstalled when `table` is missing or older, ConnectionUnusable."""
    try:
        yield
    except MISSING as error:
        raise NotInstalled(f"table {table} is missing or older; run install(conn) once") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ConnectionUnusable(
            f"the connection or its server is read-only, but table {table} has to be written; pass one that "
            "may write"
        ) from error


async def install_tables(conn: Connection, *names: str) -> None:
    """Run these statements in one transaction. Safe to run again, and by several processes at once.

    Where all is there already it needs no right to create anything. Raises NotInstalled without that right.
    """
    made = [re.findall(r"IF NOT EXISTS (\w+)", statement(name).decode())[0] for name in names]
    async with own_transaction(conn):
        row = await fetch_one(conn, "install_look", {"names": made})
        if row and row["there"]:
            return
        try:
            await conn.execute(statement("install_lock"))
            for name in names:
                await conn.execute(statement(name))
        except psycopg.errors.InsufficientPrivilege as error:
            reason = error.diag.message_primary
            raise NotInstalled(
                f"this user may not create table {made[0]} ({reason}); let one who may run install(conn) once"
            ) from error


async def fetch_all(conn: Connection, name: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows that the statement `name` returns, as dictionaries."""
    async with _cursor(conn) as cursor:
        binary = not isinstance(cursor, AsyncClientCursor)  # then DateStyle and loaders do not matter
        await cursor.execute(statement(name), values, binary=binary)
        return await cursor.fetchall()


async def fetch_one(conn: Connection, name: str, values: dict[str, Any]) -> dict[str, Any] | None:
    """The first row that the statement `name` returns, None if there is none."""
    rows = await fetch_all(conn, name, values)
    return rows[0] if rows else None


async def touched(conn: Connection, name: str, values: dict[str, Any]) -> int:
    """How many rows the statement `name` wrote. In a pipeline it waits for the answer, which says so."""
    async with _cursor(conn) as cursor:
        await cursor.execute(statement(name), values)
        if conn.pgconn.pipeline_status != PipelineStatus.OFF:
            async with conn.pipeline() as pipeline:
                await pipeline.sync()
        return cursor.rowcount


def _cursor(conn: Connection) -> AsyncCursor[dict[str, Any]]:
    """A cursor that takes our statements and answers as we expect, whatever the connection is set to."""
    raw = issubclass(conn.cursor_factory, AsyncRawCursor)  # it takes $1, not %(name)s
    return (AsyncCursor if raw else conn.cursor_factory)(conn, row_factory=dict_row)
