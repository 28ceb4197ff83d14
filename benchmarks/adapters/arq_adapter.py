"""arq, polling every 10 ms instead of its default of 0.5 s."""

import asyncio
import time

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from support import URL, counter, round_trips, together

PACKAGES = ("arq", "redis", "hiredis")
POLL = 0.01
SETTINGS = RedisSettings.from_dsn(URL or "redis://localhost")


async def noop(ctx, x):
    counter.hit()
    return x


async def sleep(ctx, x):
    counter.begin()
    await asyncio.sleep(0.01)
    counter.hit()


def enqueue(n, bulk, kind):
    async def go():
        pool = await create_pool(SETTINGS)
        begin = time.perf_counter()
        if bulk:
            await together(n, lambda i: pool.enqueue_job(kind, i))
        else:
            for i in range(n):
                await pool.enqueue_job(kind, i)
        took = time.perf_counter() - begin
        await pool.aclose()
        return took

    return asyncio.run(go())


def worker(concurrency):
    async def go():
        functions = [noop, sleep]
        await Worker(functions, redis_settings=SETTINGS, max_jobs=concurrency, poll_delay=POLL).async_run()

    asyncio.run(go())


def latency(n):
    async def go():
        pool = await create_pool(SETTINGS)

        async def once(i):
            job = await pool.enqueue_job("noop", i)
            await job.result(timeout=10, poll_delay=POLL)

        return await round_trips(n, once)

    return asyncio.run(go())
