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

Transactions are numbered by each server for itself. After a dump is restored elsewhere (or a logical replica
takes over) old rows and cursors carry numbers that the new server has yet to give out: `run_rows` refuses
with CursorAhead. Then, with all readers at rest and everything read: `UPDATE event SET written_by = '0'` and
`UPDATE row_cursor SET xid = '0', id = (SELECT max(id) FROM event)`. (pg_upgrade keeps the numbers.)
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
from qlab.postgres.values import BIGINT, function, short_text, whole
from qlab.tasks import outcome_of

__all__ = ["CursorAhead", "Position", "install", "run_rows"]

TABLE = "row_cursor"


class CursorAhead(QlabError):
    """The cursor is behind a transaction that this server has not begun: new rows would never be read."""


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
    once while another instance reads. Raises what they raise, CursorAhead, ValueError for bad input or rows
    out of order, NotInstalled, ConnectionUnusable.
    """
    values = {"name": short_text(name, "cursor name")}
    function(read, "read")
    function(handle, "handle")
    whole(limit, "limit")
    total = 0
    async with connection(source) as conn:
        async with transaction_on(conn, TABLE):
            await touched(conn, "row_cursor_create", values)
        while True:
            async with own_transaction(conn):
                held = await _hold(conn, values)
                rows = await outcome_of(read, conn, held, limit) if held else []
                if not isinstance(rows, Sequence):
                    raise ValueError(
                        f"read of {name!r} must return a list of rows, not {type(rows).__name__}"
                    )
                if rows:
                    place = _last(name, rows)
                    await outcome_of(handle, conn, rows)
                    await _move(conn, name, place)
            total += len(rows)
            if len(rows) < limit:
                return total


async def _hold(conn: Connection, values: dict[str, Any]) -> Position | None:
    async with explained(TABLE):
        held = await fetch_one(conn, "row_cursor_hold", values)
    if held is None:
        return None
    if held["ahead"]:
        raise CursorAhead(
            f"cursor {values['name']!r} is at transaction {held['xid']}, not yet begun by this server, "
            "so it came from another one; see the documentation of qlab.postgres.row_cursor"
        )
    return Position(held["xid"], held["id"])


def _last(name: str, rows: Sequence[Row]) -> Position:
    """Where the last row stands. Raises ValueError when they are not rows in order."""
    try:
        order = [(int(row.xid), whole(row.id, "id", -BIGINT, BIGINT)) for row in rows]
        whole(order[-1][0], "xid", 0, 2**64 - 1)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"read of {name!r} must return rows with the attributes xid (text) and id (a whole number), as "
            f"psycopg's namedtuple_row makes them: {error}"
        ) from error
    if order != sorted(set(order)):
        raise ValueError(_ORDER.format(name))
    return Position(str(order[-1][0]), order[-1][1])


async def _move(conn: Connection, name: str, place: Position) -> None:
    check_open(conn)
    if not await touched(conn, "row_cursor_move", {"name": name, "xid": place.xid, "id": place.id}):
        raise ValueError(_ORDER.format(name))


_ORDER = "read of {!r} must return rows after the cursor, ordered by (written_by, id)"
