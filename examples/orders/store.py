"""Receipts in PostgreSQL."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

# The lock keeps two processes that start together from making the table at the same moment.
_CREATE = """
SELECT pg_advisory_xact_lock(hashtext('examples.orders'));
CREATE TABLE IF NOT EXISTS receipt (
    order_id text PRIMARY KEY,
    item     text NOT NULL,
    quantity integer NOT NULL CHECK (quantity > 0),
    total    bigint NOT NULL,
    made_at  timestamptz NOT NULL DEFAULT now()
)
"""

# A job may run twice: the second run finds the row of the first and leaves it alone.
_SAVE = """
INSERT INTO receipt (order_id, item, quantity, total)
VALUES (%(order_id)s, %(item)s, %(quantity)s, %(total)s)
ON CONFLICT (order_id) DO NOTHING
"""

_FIND = "SELECT item, quantity, total FROM receipt WHERE order_id = %s"


async def create_tables(connection: AsyncConnection[Any]) -> None:
    """Make what is missing. Safe to run again, and by several processes at once."""
    async with connection.transaction():
        await connection.execute(_CREATE)


async def save(connection: AsyncConnection[Any], order_id: str, receipt: dict[str, Any]) -> bool:
    """Write the receipt of an order; False when it had one already, which stays."""
    done = await connection.execute(_SAVE, {"order_id": order_id, **receipt})
    return done.rowcount == 1


async def find(connection: AsyncConnection[Any], order_id: str) -> dict[str, Any] | None:
    """The receipt of an order, None while there is none."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_FIND, (order_id,))
        return await cursor.fetchone()
