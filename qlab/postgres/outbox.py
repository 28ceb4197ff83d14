"""A message that leaves the database exactly if its transaction commits: the outbox.

    async with conn.transaction():
        await conn.execute("INSERT INTO orders ...")
        await outbox.write(conn, "order.created", {"order": 7})

Adding a job inside the transaction is wrong when it rolls back (a job for an order that does not exist) or
when the worker is faster than COMMIT; adding it afterwards is wrong when the process dies in between. So the
message is a row, written with the data, and a relay (`qlab.postgres.relay`) carries it to the queue.

This is at least once, not exactly once: a relay that dies between the queue and COMMIT sends the row again,
under the same id `outbox-<id>`. A queue that still has a job of that id ignores it; once that job is removed
it does not, so the handler has to be idempotent. No order is promised: ids are not commit order, many relays
work at once, and a row that fails goes out later than its successors.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from qlab.postgres.connections import (
    Connection,
    Source,
    check_open,
    connection,
    explained,
    fetch_one,
    install_tables,
    joined_transaction,
    touched,
    transaction_on,
)
from qlab.postgres.errors import ConnectionUnusable
from qlab.postgres.values import BIGINT, aware, json_text, short_text, whole
from qlab.retry import seconds

TABLE = "outbox"
KEEP = timedelta(days=7)


@dataclass(frozen=True)
class Message:
    """One row on its way. `attempts` counts the tries before this one. `text` is the payload as JSON."""

    id: int
    topic: str
    text: str
    created_at: datetime
    attempts: int

    @property
    def payload(self) -> Any:
        """The value that was written. Raises ValueError or RecursionError for what Python cannot decode."""
        return json.loads(self.text)

    @property
    def job_id(self) -> str:
        """The id under which it is sent, the same at every try: `outbox-<id>`."""
        return f"outbox-{self.id}"


@dataclass(frozen=True)
class Lag:
    """`live` rows wait, the oldest since `oldest` seconds (0 if there is none); `dead` ones were given up."""

    live: int
    dead: int
    oldest: float


async def install(conn: Connection) -> None:
    """Create the table and its indexes if they are not there. Safe to run by several processes at once."""
    indexes = ("outbox_live_index", "outbox_published_index", "outbox_dead_index")
    await install_tables(conn, "outbox_table", *indexes)


async def write(
    conn: Connection, topic: str, payload: Any, *, hint: bool = True, now: datetime | None = None
) -> int:
    """Note a message in the open transaction of `conn` and return its id; COMMIT is yours.

    topic:   what happened, 1 to 255 characters; payload: strict JSON, at most 64 KiB.
    hint:    wake the relays at COMMIT (NOTIFY). Commits that notify wait for each other: with thousands a
             second pass False, and the relays find the row when they poll.
    Raises PayloadError or ValueError for bad input, ConnectionUnusable without a transaction, NotInstalled.
    """
    if not isinstance(conn, AsyncConnection):
        raise TypeError(
            f"write takes the connection of your transaction, not {type(conn).__name__}: on another "
            "connection the message would not share the fate of your data"
        )
    text = json_text(payload, "payload")
    values = {"topic": short_text(topic, "topic"), "payload": text, "hint": hint, "now": aware(now)}
    check_open(conn)
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise ConnectionUnusable(
            "the connection commits by itself and no transaction is open, so the message would be committed "
            "without your data; write it inside `async with conn.transaction():`"
        )
    async with explained(TABLE):
        row = await fetch_one(conn, "outbox_write", values)
    assert row is not None
    return int(row["id"])


async def lag(source: Source, *, now: datetime | None = None) -> Lag:
    """How far the relays are behind: the number to alert on is `oldest`, and `dead` above zero."""
    async with joined_transaction(source, TABLE) as conn:
        row = await fetch_one(conn, "outbox_lag", {"now": aware(now)})
    assert row is not None
    return Lag(row["live"], row["dead"], max(0.0, row["oldest"] or 0.0))


async def replay(source: Source, ids: Iterable[int] | None = None, *, now: datetime | None = None) -> int:
    """Make dead rows live again (all, or those of `ids`), with all their attempts; return how many."""
    values = {
        "ids": None if ids is None else [whole(one, "an id of `ids`", most=BIGINT) for one in ids],
        "now": aware(now),
    }
    async with transaction_on(source, TABLE) as conn:
        return await touched(conn, "outbox_replay", values)


async def cleanup(
    source: Source, keep: timedelta = KEEP, *, batch: int = 1000, now: datetime | None = None
) -> int:
    """Delete rows published more than `keep` ago; return how many. Rows not published stay, however old.

    Works in short transactions of `batch` rows, so it may run beside everything else.
    """
    values = {"keep": seconds(keep, "keep"), "batch": whole(batch, "batch"), "now": aware(now)}
    total = 0
    async with connection(source) as conn:
        while True:
            async with transaction_on(conn, TABLE):
                deleted = await touched(conn, "outbox_cleanup", values)
            total += deleted
            if deleted < batch:
                return total
