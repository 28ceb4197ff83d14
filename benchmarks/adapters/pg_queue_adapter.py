"""qlab.postgres.pg_queue with its defaults."""

import asyncio
import os
import time

import psycopg
from psycopg_pool import AsyncConnectionPool
from support import counter

from qlab.postgres import pg_queue
from qlab.postgres.pg_worker import PgWorker

PACKAGES = ("psycopg", "psycopg-pool")
DSN = os.environ.get("BENCH_PG_DSN", "")


def _run(use):
    async def go():
        async with await psycopg.AsyncConnection.connect(DSN) as conn:
            return await use(conn)

    return asyncio.run(go())


def setup():
    async def use(conn):
        await pg_queue.install(conn)
        await conn.commit()

    _run(use)


def enqueue(n, bulk, kind):
    async def use(conn):
        begin, size = time.perf_counter(), 1000 if bulk else 1
        for first in range(0, n, size):
            async with conn.transaction():
                for i in range(first, min(n, first + size)):
                    await pg_queue.enqueue(conn, "bench", kind, {"x": i})
        return time.perf_counter() - begin

    return _run(use)


async def handle(job):
    counter.hit()
    return job.data["x"]


def worker(concurrency):
    async def go():
        async with (
            AsyncConnectionPool(DSN, min_size=4, max_size=10, open=False) as pool,
            PgWorker(pool, "bench", handle, concurrency=concurrency),
        ):
            await asyncio.Event().wait()

    asyncio.run(go())
