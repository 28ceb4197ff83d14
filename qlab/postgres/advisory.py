"""Work that one process at a time may do, guarded by a PostgreSQL advisory lock.

    outcome = await run_exclusive(pool, "nightly-cleanup", clean_up)     # clean_up(conn)

The lock is of *transaction* level: COMMIT, ROLLBACK and the end of the connection free it. A lock of session
level does not fit a pool: a connection goes back to its pool with the lock still on, and another connection
cannot unlock it.

What it is not:
- not once per tick. An instance whose timer fires a little later finds the lock free again and runs too. For
  once per tick give the tick a key: `run_once(pool, "cleanup:2026-10-01T03:00Z", ...)`.
- not a proof. When the server ends the holder's connection, or loses sight of it, the next one starts while
  the first still runs outside the database. What `fn` writes through its `conn` is rolled back then; anything
  else must be idempotent. A machine that vanishes is noticed by TCP only: set keepalives (`keepalives_idle`)
  or `tcp_user_timeout` in the DSN.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from psycopg.errors import LockNotAvailable

from qlab.postgres.connections import Connection, Source, connection, fetch_one, own_transaction
from qlab.postgres.values import function, short_text, whole
from qlab.retry import Seconds, milliseconds
from qlab.tasks import outcome_of

__all__ = ["Exclusive", "lock_key", "run_exclusive"]

NAMESPACE = "qlab"


@dataclass(frozen=True)
class Exclusive:
    """`ran` is False when somebody else had the lock; then `result` is None."""

    ran: bool
    result: Any = None


def lock_key(name: str, namespace: str = NAMESPACE) -> int:
    """The signed 64-bit number that PostgreSQL locks, the same in every process and version.

    The server's own `hashtext` has 32 bits, so that two of some 77,000 names already share a lock with
    probability 1/2, and is not a documented function.
    """
    text = f"{short_text(namespace, 'namespace')}\x00{short_text(name, 'lock name')}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


async def run_exclusive(
    source: Source,
    name: str,
    fn: Callable[[Connection], Awaitable[Any]],
    *,
    wait: Seconds = 0,
    namespace: str = NAMESPACE,
) -> Exclusive:
    """Run `fn(conn)` in a transaction that holds the lock `name`, or skip it when the lock is not free.

    fn:   short work, on the connection that it is given: it is held all the time. An error rolls back what
          it wrote there, frees the lock and goes on to the caller. Its transaction is READ COMMITTED.
    wait: seconds to wait for the lock, on a connection, whatever its statement_timeout; 0 does not wait.
    Raises ValueError for a bad name, ConnectionUnusable for a connection that is closed or in a transaction,
    when `fn` swallows the error of a statement or ends the transaction itself, and when it asks for a second
    connection of the same pool through qlab.
    """
    function(fn, "fn")
    key, limit = lock_key(name, namespace), whole(milliseconds(wait, "wait"), "wait in ms", least=0)
    async with connection(source) as conn, own_transaction(conn):
        if not await (_wait(conn, key, limit) if limit else _try(conn, key)):
            return Exclusive(ran=False)
        return Exclusive(ran=True, result=await outcome_of(fn, conn))


async def _try(conn: Connection, key: int) -> bool:
    row = await fetch_one(conn, "advisory_try", {"key": key})
    return row is not None and bool(row["taken"])


async def _wait(conn: Connection, key: int, limit: int) -> bool:
    earlier = await fetch_one(conn, "limit_lock_wait", {"locks": f"{limit}ms", "statements": "0"})
    assert earlier is not None
    try:
        async with conn.transaction():  # a savepoint, so that the time-out does not end the transaction
            await fetch_one(conn, "advisory_wait", {"key": key})
    except LockNotAvailable:
        return False
    await fetch_one(conn, "limit_lock_wait", {name: earlier[name] for name in ("locks", "statements")})
    return True
