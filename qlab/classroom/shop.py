"""The shop of the lessons on orders: its database, the queue beside it, and what is in both right now.

    shop = await Shop.open(queue)
    await shop.count("orders", "jobs")              # {"orders": 1, "jobs": 0}

It uses the database of the open lab (QLAB_PG_DSN) and keeps no connection of its own between two calls.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import psycopg

from qlab.classroom.processes import LabError
from qlab.classroom.texts import text
from qlab.classroom.wrong import enqueueing
from qlab.postgres import outbox
from qlab.postgres.statements import statement
from qlab.queue import Queue

Connection = psycopg.AsyncConnection[Any]

LETTERS = "CREATE TABLE IF NOT EXISTS letters (order_id text PRIMARY KEY)"
COUNTS = {
    "orders": "SELECT count(*) FROM orders",
    "letters": "SELECT count(*) FROM letters",
    "messages": "SELECT count(*) FROM outbox",
    "published": "SELECT count(*) FROM outbox WHERE published_at IS NOT NULL",
}
OTHERS_AT_WORK = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
AND backend_type = 'client backend'
"""

OLD = """
INSERT INTO outbox (topic, payload, created_at, next_attempt_at, published_at)
SELECT 'confirm', '{}', moment, moment, CASE WHEN %(published)s THEN moment END
FROM generate_series(1, %(many)s), (SELECT now() - make_interval(days => %(days)s) AS moment) AS at
"""


@dataclass(frozen=True)
class Row:
    """One row of the outbox: whether it is marked as published, and whether the queue has its job."""

    id: int
    published: bool
    job: bool


class Shop:
    """Orders, letters and the outbox of a lesson. Make one with :meth:`open`."""

    def __init__(self, queue: Queue, dsn: str) -> None:
        self.queue, self.dsn = queue, dsn

    @classmethod
    async def open(cls, queue: Queue) -> Shop:
        """Create the tables in the lab's database. LabError when the lab has no PostgreSQL."""
        dsn = os.environ.get("QLAB_PG_DSN")
        if not dsn:
            raise LabError(text("lab.needs_postgres"))
        shop = cls(queue, dsn)
        async with await shop.connect() as conn:
            await enqueueing.create_tables(conn)
            await conn.execute(LETTERS)
            await outbox.install(conn)
        await shop.reset()
        return shop

    async def connect(self) -> Connection:
        """A new connection that commits each statement by itself; use it in ``async with``."""
        return await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)

    async def reset(self) -> None:
        """Empty the tables and the queue; the outbox begins with number 1 again."""
        async with await self.connect() as conn:
            await conn.execute("TRUNCATE orders, letters, outbox RESTART IDENTITY")
        await self.queue.obliterate()

    async def write(self, many: int, *, hint: bool = True) -> list[int]:
        """Commit ``many`` orders, each with its message in the outbox; return the messages' numbers."""
        ids = []
        async with await self.connect() as conn:
            for _ in range(many):
                async with conn.transaction():
                    row = await (await conn.execute("SELECT count(*) + 1 FROM orders")).fetchone()
                    assert row is not None
                    order = f"o-{row[0]}"
                    await conn.execute("INSERT INTO orders (id, amount) VALUES (%s, 100)", [order])
                    ids.append(await outbox.write(conn, enqueueing.JOB, {"order": order}, hint=hint))
        return ids

    async def write_old(self, many: int, *, days: int, published: bool = True) -> None:
        """Rows of the past: written ``days`` ago and, if ``published``, published then."""
        async with await self.connect() as conn:
            await conn.execute(OLD, {"many": many, "days": days, "published": published})

    async def explain_relay(self, batch: int = 100) -> dict[str, Any]:
        """How PostgreSQL finds the relay's rows: the ``index`` that it uses, the ``rows`` that it reads."""
        values = {"batch": batch, "now": None}
        async with await self.connect() as conn:
            await conn.execute("VACUUM ANALYZE outbox")
            async with conn.transaction(force_rollback=True):
                explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement("outbox_take")
                row = await (await conn.execute(explain, values)).fetchone()
        assert row is not None
        scan = row[0][0]["Plan"]
        while "Plans" in scan:
            scan = scan["Plans"][0]
        return {"index": scan.get("Index Name", scan["Node Type"]), "rows": round(scan["Actual Rows"])}

    async def count(self, *names: str) -> dict[str, int]:
        """How many ``orders``, ``letters``, ``messages``, ``published`` and waiting ``jobs`` there are."""
        found = {}
        async with await self.connect() as conn:
            for name in names:
                if name == "jobs":
                    found[name] = (await self.queue.get_job_counts("waiting"))["waiting"]
                else:
                    row = await (await conn.execute(COUNTS[name].encode())).fetchone()
                    assert row is not None
                    found[name] = int(row[0])
        return found

    async def until(self, *, within: float = 15.0, **wanted: int) -> dict[str, int]:
        """Wait until the counts are these. LabError, with the last counts, after ``within`` seconds."""
        found: dict[str, int] = {}
        try:
            async with asyncio.timeout(within):
                while (found := await self.count(*wanted)) != wanted:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise LabError(
                text("lab.not_counted", seconds=f"{within:g}", wanted=wanted, found=found)
            ) from None
        return found

    async def settled(self, within: float = 15.0) -> None:
        """Wait until the server has noticed which clients are dead: nobody has a transaction open."""
        async with await self.connect() as conn, asyncio.timeout(within):
            while True:
                row = await (await conn.execute(OTHERS_AT_WORK)).fetchone()
                if row == (0,):
                    return
                await asyncio.sleep(0.02)

    async def rows(self) -> list[Row]:
        """The outbox and the queue side by side, in the order of the rows' numbers."""
        async with await self.connect() as conn:
            cursor = await conn.execute("SELECT id, published_at IS NOT NULL FROM outbox ORDER BY id")
            rows = await cursor.fetchall()
        jobs = [await self.queue.get_job(f"outbox-{number}") for number, _ in rows]
        return [Row(number, done, job is not None) for (number, done), job in zip(rows, jobs, strict=True)]

    def __repr__(self) -> str:
        return "Shop()"
