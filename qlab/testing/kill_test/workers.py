"""The worker that is killed: `python -m qlab worker qlab.testing.kill_test.workers:make`."""

import asyncio
import json
import os

from psycopg_pool import AsyncConnectionPool

from qlab import Job, Worker
from qlab.testing.kill_test.ledger import WORK

QUEUE = "kill-test"


def make() -> Worker:
    """A worker with the options in the variable KILL_TEST, made by `fleet`."""
    options = json.loads(os.environ["KILL_TEST"])
    work = options.pop("work")
    pool = AsyncConnectionPool(os.environ["QLAB_PG_DSN"], min_size=4, max_size=4, open=False)

    async def handler(job: Job) -> None:
        await pool.open()  # does nothing when it is open
        async with pool.connection() as connection:
            await connection.execute(WORK, {"job": job.id, "worker": worker.name})
        await asyncio.sleep(work)

    worker = Worker(QUEUE, handler, **options)
    return worker
