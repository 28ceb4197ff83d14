"""A minimal queue in PostgreSQL: a job is a row, added in the transaction of the data that it is about.

    async with conn.transaction():
        await conn.execute("INSERT INTO orders ...")
        await pg_queue.enqueue(conn, "mail", "receipt", {"order": 7}, attempts=3)

No outbox and no relay: both writes are in one database. The ideas are those of the queue on Redis: a job is
lent under a claim number that only rises, a lease that ends makes it wait again, and what a worker writes
late is refused. Delivery is at least once. Only an effect in this same database can be had once: call
`complete(conn, ...)` inside its transaction, then both are committed, or neither. `PgWorker` runs handlers.

The price is paid by the database: each job is written at least three times (added, lent, ended), every time
with its indexes, and leaves dead rows for vacuum.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from qlab import payload
from qlab.errors import LockLost
from qlab.postgres.connections import (
    Connection,
    Source,
    check_open,
    explained,
    fetch_all,
    fetch_one,
    install_tables,
    joined_transaction,
    touched,
    transaction_on,
)
from qlab.postgres.errors import ConnectionUnusable
from qlab.postgres.values import aware, json_text, lock_time, short_text, whole
from qlab.retry import Seconds, seconds

TABLE = "pg_job"
STATES = ("waiting", "active", "completed", "failed")


@dataclass(frozen=True)
class PgJob:
    """A job that is lent to us under `claim`. `attempts_made` counts the tries before this one."""

    id: int
    name: str
    text: str
    attempts_made: int
    max_attempts: int
    claim: int
    worker: str

    @property
    def data(self) -> Any:
        """The value that was enqueued; decoded here, so that a bad row fails alone, without its batch."""
        return json.loads(self.text)


async def install(conn: Connection) -> None:
    """Create the table and its indexes if they are not there. Safe to run by several processes at once."""
    await install_tables(conn, "pg_job_table", "pg_job_waiting_index", "pg_job_active_index")


async def enqueue(
    conn: Connection, queue: str, name: str, data: Any = None, *, attempts: int = 1, delay: Seconds = 0,
    now: datetime | None = None,
) -> int:  # fmt: skip
    """Add a job in the open transaction of `conn` and return its id; COMMIT is yours.

    data: strict JSON, at most 64 KiB; attempts: counts the first run too; delay: seconds before it may run.
    Raises PayloadError or ValueError, ConnectionUnusable without a transaction, NotInstalled.
    """
    if not isinstance(conn, AsyncConnection):
        raise TypeError(f"enqueue takes the connection of your transaction, not {type(conn).__name__}")
    values = {
        "queue": short_text(queue, "queue name"), "name": short_text(name, "job name"),
        "data": json_text(data, "data"), "attempts": whole(attempts, "attempts"),
        "delay": seconds(delay, "delay"), "now": aware(now),
    }  # fmt: skip
    check_open(conn)
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise ConnectionUnusable(
            "the connection commits by itself and no transaction is open, so the job would be committed "
            "without your data; enqueue it inside `async with conn.transaction():`"
        )
    async with explained(TABLE):
        row = await fetch_one(conn, "pg_job_enqueue", values)
    assert row is not None
    return int(row["id"])


async def take(
    source: Source, queue: str, worker: str, *, most: int = 1, lock_duration: Seconds = 30.0,
    now: datetime | None = None,
) -> list[PgJob]:  # fmt: skip
    """Borrow up to `most` jobs that are due, the one due longest first, and commit."""
    values = {
        "queue": short_text(queue, "queue name"), "worker": short_text(worker, "worker name"),
        "most": whole(most, "most"), "lock": lock_time(lock_duration, "lock_duration"), "now": aware(now),
    }  # fmt: skip
    async with transaction_on(source, TABLE) as conn:
        rows = await fetch_all(conn, "pg_job_take", values)
    rows.sort(key=lambda row: (row.pop("run_at"), row["id"]))
    return [PgJob(**row, worker=worker) for row in rows]


async def complete(source: Source, job: PgJob, result: Any = None, *, now: datetime | None = None) -> None:
    """End the job. Inside an open transaction it becomes part of it, together with your own writes.

    Raises LockLost when the job was given to somebody else: let it roll your transaction back.
    """
    values = {"id": job.id, "claim": job.claim, "result": json_text(result, "result"), "now": aware(now)}
    async with joined_transaction(source, TABLE) as conn:
        if await touched(conn, "pg_job_complete", values) == 0:
            raise LockLost(str(job.id), job.worker, job.claim)


async def fail(
    source: Source, job: PgJob, error: BaseException, *, delay: Seconds = 0, final: bool = False,
    now: datetime | None = None,
) -> str:  # fmt: skip
    """End this attempt; return "waiting" (again after `delay` seconds) or "failed". Raises LockLost."""
    values = {
        "id": job.id, "claim": job.claim, "reason": payload.error_text(error), "final": final,
        "delay": seconds(delay, "delay"), "now": aware(now),
    }  # fmt: skip
    async with transaction_on(source, TABLE) as conn:
        row = await fetch_one(conn, "pg_job_fail", values)
    if row is None:
        raise LockLost(str(job.id), job.worker, job.claim)
    return str(row["state"])


async def release(source: Source, job: PgJob) -> bool:
    """Give the job back unfinished, at no cost. False: it was somebody else's by now."""
    async with transaction_on(source, TABLE) as conn:
        values = {"id": job.id, "claim": job.claim}
        return await touched(conn, "pg_job_release", values) == 1


async def renew(
    source: Source, jobs: Sequence[PgJob], *, lock_duration: Seconds = 30.0, now: datetime | None = None
) -> list[PgJob]:
    """Lend all these jobs for longer in one statement; return those that are lost."""
    values = {
        "ids": [job.id for job in jobs], "claims": [job.claim for job in jobs],
        "lock": lock_time(lock_duration, "lock_duration"), "now": aware(now),
    }  # fmt: skip
    async with transaction_on(source, TABLE) as conn:
        held = {(row["id"], row["claim"]) for row in await fetch_all(conn, "pg_job_renew", values)}
    return [job for job in jobs if (job.id, job.claim) not in held]


async def recover(
    source: Source, queue: str, *, max_stalled_count: int = 1, batch: int = 1000, now: datetime | None = None
) -> dict[int, str]:
    """Make jobs whose lease ran out wait again, or fail; return the new state of each."""
    most = whole(max_stalled_count, "max_stalled_count", least=0)
    name = short_text(queue, "queue name")
    values = {"queue": name, "max_stalled": most, "batch": whole(batch, "batch"), "now": aware(now)}
    async with transaction_on(source, TABLE) as conn:
        return {row["id"]: row["state"] for row in await fetch_all(conn, "pg_job_recover", values)}


async def counts(source: Source, queue: str) -> dict[str, int]:
    """How many jobs are in each state."""
    values = {"queue": short_text(queue, "queue name")}
    async with transaction_on(source, TABLE) as conn:
        rows = await fetch_all(conn, "pg_job_counts", values)
    return dict.fromkeys(STATES, 0) | {row["state"]: row["jobs"] for row in rows}
