"""A relay that works as long as every row is good.

    await relay_all_or_nothing(connection, publish)

The right way is `qlab.postgres.relay`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from qlab.postgres.outbox import Message

TAKE = """
SELECT id, topic, payload::text, created_at, attempts FROM outbox
WHERE published_at IS NULL
ORDER BY id
LIMIT %s
FOR UPDATE SKIP LOCKED
"""


async def relay_all_or_nothing(
    connection: psycopg.AsyncConnection[Any],
    publish: Callable[[Message], Awaitable[Any]],
    *,
    batch: int = 100,
) -> int:
    """Mistake: one transaction for the batch and no count of attempts, so one bad row undoes every mark.

    The rows before it are sent again at each pass, those after it never. Returns how many were published;
    raises whatever `publish` raises.
    """
    async with connection.transaction():
        rows = await (await connection.execute(TAKE, [batch])).fetchall()
        for row in rows:
            await publish(Message(*row))
            await connection.execute("UPDATE outbox SET published_at = now() WHERE id = %s", [row[0]])
    return len(rows)
