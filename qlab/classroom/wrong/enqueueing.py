"""Two ways of adding a job beside a transaction. Each is a mistake, and each for a reason of its own.

    await add_inside({"id": "o-7", "amount": 100}, connection, queue)

The right way is `qlab.postgres.outbox`. `queue` is anything with `add(name, data)`, such as `qlab.Queue`.
"""

from __future__ import annotations

from typing import Any

import psycopg

JOB = "confirm"
"""The name of the job that both add; its data is `{"order": id}`."""


async def create_tables(connection: psycopg.AsyncConnection[Any]) -> None:
    """Create `orders` if it is not there."""
    async with connection.transaction():
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, amount integer NOT NULL)"
        )


async def add_inside(order: dict[str, Any], connection: psycopg.AsyncConnection[Any], queue: Any) -> None:
    """Mistake: the job is added before COMMIT, so a ROLLBACK leaves a job for an order that never existed."""
    async with connection.transaction():
        await _insert(order, connection)
        await queue.add(JOB, {"order": order["id"]})


async def add_after(order: dict[str, Any], connection: psycopg.AsyncConnection[Any], queue: Any) -> None:
    """Mistake: the job is added after COMMIT, so a crash between the two leaves an order nobody hears of."""
    async with connection.transaction():
        await _insert(order, connection)
    await queue.add(JOB, {"order": order["id"]})


async def _insert(order: dict[str, Any], connection: psycopg.AsyncConnection[Any]) -> None:
    row = (order["id"], order["amount"])
    await connection.execute("INSERT INTO orders (id, amount) VALUES (%s, %s)", row)
