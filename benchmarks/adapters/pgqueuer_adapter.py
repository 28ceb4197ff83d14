"""pgqueuer: SKIP LOCKED, heartbeats, a log row for each job."""

import asyncio
import json
import os
import time

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from support import counter

PACKAGES = ("pgqueuer", "asyncpg")


async def _connect():
    return await asyncpg.connect(**json.loads(os.environ["BENCH_PG"]))


def setup():
    async def go():
        await Queries(AsyncpgDriver(await _connect())).install()

    asyncio.run(go())


def enqueue(n, bulk, kind):
    async def go():
        queries = Queries(AsyncpgDriver(await _connect()))
        begin, size = time.perf_counter(), 1000 if bulk else 1
        for first in range(0, n, size):
            data = [b'{"x":%d}' % i for i in range(first, min(n, first + size))]
            await queries.enqueue([kind] * len(data), data, [0] * len(data))
        return time.perf_counter() - begin

    return asyncio.run(go())


def worker(concurrency):
    async def go():
        queuer = PgQueuer.from_asyncpg_connection(await _connect())

        @queuer.entrypoint("noop")
        async def noop(job):
            counter.hit()

        await queuer.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency)

    asyncio.run(go())
