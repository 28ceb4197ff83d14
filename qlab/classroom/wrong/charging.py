"""Six ways to charge an order that look right and are not. Each fails in a lesson, by its own schedule.

    await create_tables(connection)
    await charge_first({"id": "o-1", "amount": 100}, connection, provider)

All take the order, a psycopg connection in autocommit mode (so every statement is committed by itself, and
no transaction stays open during the call) and a provider with `charge(order=, amount=, key=)`.
Their key goes to the provider too; whether it deduplicates by it is the provider's affair. They return
`{"status": "charged", "charge": id}` or `{"status": "skipped"}`.

For a way that holds, see `qlab.postgres.idempotency`.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, Protocol
from uuid import UUID

from psycopg import AsyncConnection

from qlab.postgres.errors import KeyBusy
from qlab.testing.provider import Charge

__all__ = [
    "charge_first",
    "create_tables",
    "increment",
    "job_id_as_key",
    "lease_without_release",
    "lease_without_token",
    "processed_job_first",
]

LOCK_SECONDS = 30.0
"""How long the three leases below hold a key, unless told otherwise."""

_TABLES = """
CREATE TABLE IF NOT EXISTS processed_job (key text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS charge_key (
    key          text        PRIMARY KEY,
    status       text        NOT NULL CHECK (status IN ('PENDING', 'DONE')),
    locked_until timestamptz NOT NULL,
    lock_token   uuid        NOT NULL,
    charge       text
);
CREATE TABLE IF NOT EXISTS order_count (name text PRIMARY KEY, n bigint NOT NULL);
"""
_CLAIM = """
INSERT INTO charge_key AS held (key, status, locked_until, lock_token)
VALUES (%(key)s, 'PENDING', clock_timestamp() + %(lock)s, gen_random_uuid())
ON CONFLICT (key) DO UPDATE SET locked_until = excluded.locked_until, lock_token = excluded.lock_token
WHERE held.status = 'PENDING' AND held.locked_until <= clock_timestamp()
RETURNING lock_token
"""
_STATUS = "SELECT status FROM charge_key WHERE key = %s"
_RELEASE = """
UPDATE charge_key SET locked_until = clock_timestamp()
WHERE key = %(key)s AND lock_token = %(token)s AND status = 'PENDING'
"""
_DONE = """
UPDATE charge_key SET status = 'DONE', charge = %(charge)s
WHERE key = %(key)s AND lock_token = %(token)s AND status = 'PENDING'
"""
_RELEASE_ANY = (
    "UPDATE charge_key SET status = 'PENDING', locked_until = clock_timestamp() WHERE key = %(key)s"
)
_DONE_ANY = "UPDATE charge_key SET status = 'DONE', charge = %(charge)s WHERE key = %(key)s"

Connection = AsyncConnection[Any]
Order = dict[str, Any]
P = ParamSpec("P")


class Provider(Protocol):
    """What is called to take the money: `PaymentProvider` or `ProviderClient`."""

    async def charge(self, order: str, amount: int, key: str | None = None) -> Charge:
        """Take the money once for this key."""


def each_statement_commits(handler: Callable[P, Awaitable[Order]]) -> Callable[P, Awaitable[Order]]:
    """Refuse a connection that would hold a transaction open while the provider is called."""

    @wraps(handler)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> Order:
        for value in (*args, *kwargs.values()):
            if isinstance(value, AsyncConnection) and not value.autocommit:
                raise ValueError("the connection is not in autocommit mode; open it with autocommit=True")
        return await handler(*args, **kwargs)

    return checked


async def create_tables(connection: Connection) -> None:
    """Create the tables of the wrong ways if they are not there, and the counter at 0."""
    await connection.execute(_TABLES)
    await connection.execute("INSERT INTO order_count VALUES ('orders', 0) ON CONFLICT DO NOTHING")


@each_statement_commits
async def processed_job_first(order: Order, connection: Connection, provider: Provider) -> Order:
    """Mistake: writes "done" before it is done; after an error in between nobody ever charges."""
    key = f"charge:{order['id']}"
    sql = "INSERT INTO processed_job VALUES (%s) ON CONFLICT DO NOTHING"
    written = await connection.execute(sql, [key])
    if written.rowcount == 0:
        return {"status": "skipped"}
    charge = await provider.charge(order=order["id"], amount=order["amount"], key=key)
    return {"status": "charged", "charge": charge.id}


@each_statement_commits
async def charge_first(order: Order, connection: Connection, provider: Provider) -> Order:
    """Mistake: looks, charges, and writes it down last; whoever comes in between charges again."""
    key = f"charge:{order['id']}"
    seen = await connection.execute("SELECT 1 FROM processed_job WHERE key = %s", [key])
    if await seen.fetchone():
        return {"status": "skipped"}
    charge = await provider.charge(order=order["id"], amount=order["amount"], key=key)
    await connection.execute("INSERT INTO processed_job VALUES (%s) ON CONFLICT DO NOTHING", [key])
    return {"status": "charged", "charge": charge.id}


@each_statement_commits
async def lease_without_release(
    order: Order, connection: Connection, provider: Provider, *, lock_seconds: float = LOCK_SECONDS
) -> Order:
    """Mistake: keeps its lock after an error, so every retry is refused until the attempts are used up."""
    key = f"charge:{order['id']}"
    token = await _claim(connection, key, lock_seconds)
    if token is None:
        return {"status": "skipped"}
    charge = await provider.charge(order=order["id"], amount=order["amount"], key=key)
    values = {"key": key, "token": token, "charge": charge.id}
    if (await connection.execute(_DONE, values)).rowcount == 0:
        raise KeyBusy(key)
    return {"status": "charged", "charge": charge.id}


@each_statement_commits
async def lease_without_token(
    order: Order, connection: Connection, provider: Provider, *, lock_seconds: float = LOCK_SECONDS
) -> Order:
    """Mistake: releases and finishes by key alone; a worker that wakes late undoes the next one's work."""
    key = f"charge:{order['id']}"
    if await _claim(connection, key, lock_seconds) is None:
        return {"status": "skipped"}
    try:
        charge = await provider.charge(order=order["id"], amount=order["amount"], key=key)
    except Exception:
        await connection.execute(_RELEASE_ANY, {"key": key})
        raise
    await connection.execute(_DONE_ANY, {"key": key, "charge": charge.id})
    return {"status": "charged", "charge": charge.id}


@each_statement_commits
async def job_id_as_key(
    order: Order, connection: Connection, provider: Provider, *, lock_seconds: float = LOCK_SECONDS
) -> Order:
    """Mistake: the key is the job's id; the same order added again has another id and is charged again."""
    key = f"charge:{order['job_id']}"
    token = await _claim(connection, key, lock_seconds)
    if token is None:
        return {"status": "skipped"}
    values: dict[str, Any] = {"key": key, "token": token}
    try:
        charge = await provider.charge(order=order["id"], amount=order["amount"], key=key)
    except Exception:
        await connection.execute(_RELEASE, values)
        raise
    if (await connection.execute(_DONE, {**values, "charge": charge.id})).rowcount == 0:
        raise KeyBusy(key)
    return {"status": "charged", "charge": charge.id}


@each_statement_commits
async def increment(order: Order, connection: Connection, provider: Provider) -> Order:
    """Mistake: n = n + 1, once for every run of the job instead of once for every order."""
    await connection.execute("UPDATE order_count SET n = n + 1 WHERE name = 'orders'")
    return {"status": "counted", "order": order["id"]}


async def _claim(connection: Connection, key: str, lock_seconds: float) -> UUID | None:
    """The token of our lease; None when the key is done. Raises KeyBusy while somebody else holds it."""
    lock = timedelta(seconds=lock_seconds)
    row = await (await connection.execute(_CLAIM, {"key": key, "lock": lock})).fetchone()
    if row:
        token: UUID = row[0]
        return token
    row = await (await connection.execute(_STATUS, [key])).fetchone()
    if row and row[0] == "DONE":
        return None
    raise KeyBusy(key)
