"""Read every row of a growing table once, in batches, with a cursor: no row skipped, none read twice.

A cursor on a time or an id alone is wrong twice. Rows with the same time at the edge of a batch are skipped
or repeated (ties), and a row whose transaction commits late appears behind the cursor (late rows): times and
ids are given out before COMMIT. So the cursor is a pair, the writing transaction and the row's id, and a
batch ends before the oldest transaction that is still running. The table needs one more column and an index:

    written_by xid8 NOT NULL DEFAULT pg_current_xact_id()        -- and an index on (written_by, id)

and `read` selects, with `after.xid`, `after.id` and `limit` as its parameters:

    SELECT written_by::text AS xid, id, ... FROM event
    WHERE (written_by, id) > (%s::text::xid8, %s)
      AND written_by < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY written_by, id LIMIT %s

The price: one transaction that stays open for an hour delays every reader for an hour, in any database of the
server. Rows that are changed later are not read again, unless the change sets `written_by` anew.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from qlab.postgres.connections import (
    Connection,
    Source,
    connection,
    explained,
    fetch_one,
    install_tables,
    own_transaction,
    transaction_on,
)
from qlab.postgres.statements import statement
from qlab.postgres.values import short_text, whole

__all__ = ["Position", "install", "run_rows"]

TABLE = "row_cursor"


class Row(Protocol):
    """What `read` returns: anything with the attributes `xid` (text) and `id`, and what you need."""

    @property
    def xid(self) -> str: ...
    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Position:
    """Behind the row `id` of the transaction `xid`."""

    xid: str
    id: int


async def install(conn: Connection) -> None:
    """Create the table if it is not there. Safe to run again, and by several processes at once."""
    await install_tables(conn, "row_cursor_table")


async def run_rows(
    source: Source,
    name: str,
    read: Callable[[Connection, Position, int], Awaitable[Sequence[R]]],
    handle: Callable[[Connection, Sequence[R]], Awaitable[Any]],
    *,
    limit: int = 500,
) -> int:
    """Hand all new rows to `handle`, up to `limit` at a time, and return how many.

    `read(conn, after, limit)` returns the rows after the position, as above. What `handle(conn, rows)`
    writes through its `conn` is committed with the cursor; elsewhere a crash repeats a batch. Returns 0 at
    once while another instance reads. Raises what they raise, ValueError for bad input or rows out of order.
    """
    values = {"name": short_text(name, "cursor name")}
    whole(limit, "limit")
    total = 0
    async with connection(source) as conn:
        async with transaction_on(conn, TABLE):
            await conn.execute(statement("row_cursor_create"), values)
        while True:
            async with own_transaction(conn):
                async with explained(TABLE):
                    held = await fetch_one(conn, "row_cursor_hold", values)
                rows = await read(conn, Position(**held), limit) if held else []
                if rows:
                    await handle(conn, rows)
                    await _move(conn, name, rows)
            total += len(rows)
            if len(rows) < limit:
                return total


async def _move(conn: Connection, name: str, rows: Sequence[Row]) -> None:
    order = [(int(row.xid), row.id) for row in rows]
    values = {"name": name, "xid": rows[-1].xid, "id": rows[-1].id}
    if order != sorted(set(order)) or not (await conn.execute(statement("row_cursor_move"), values)).rowcount:
        raise ValueError(f"read of {name!r} must return rows after the cursor, ordered by (written_by, id)")
