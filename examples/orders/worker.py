"""The slow half: take an order from the queue, make its receipt, write it down.

python -m qlab worker examples.orders.worker:make_worker
"""

from __future__ import annotations

from typing import Any

import psycopg

from examples.orders import store
from examples.orders.settings import QUEUE, Settings
from examples.orders.work import make_receipt
from qlab import Backoff, Job, Worker

RETRIES = {"attempts": 5, "backoff": Backoff.exponential(1.0, jitter=0.5, max_delay=30)}
"""Options of ``queue.add``: the database may be away for a moment."""


def make_worker() -> Worker:
    """The worker, by the settings of this process."""
    settings = Settings.read()

    async def handle(job: Job) -> dict[str, Any]:
        receipt = await make_receipt(job.data["order"], settings.work)
        # Connected only now: a connection held during the slow part would be missing elsewhere.
        async with await psycopg.AsyncConnection.connect(settings.pg_dsn, connect_timeout=5) as connection:
            await store.save(connection, job.id, receipt)
        return receipt

    return Worker(
        QUEUE,
        handle,
        concurrency=settings.concurrency,
        lock_duration=settings.lock,
        stalled_interval=settings.lock / 2,
    )
