"""streaq: a stream with a consumer group, results over pub/sub."""

import asyncio
import os
import time

from streaq import Worker
from support import URL, counter, round_trips

PACKAGES = ("streaq", "coredis")
app = Worker(redis_url=URL, concurrency=int(os.environ.get("BENCH_CONCURRENCY", "20")))


@app.task(silent=True)
async def noop(x: int) -> int:
    counter.hit()
    return x


@app.task(silent=True)
async def sleep(x: int) -> None:
    counter.begin()
    await asyncio.sleep(0.01)
    counter.hit()


def enqueue(n, bulk, kind):
    task = {"noop": noop, "sleep": sleep}[kind]

    async def go():
        async with app:
            begin = time.perf_counter()
            if bulk:
                for first in range(0, n, 1000):
                    await app.enqueue_many([task.enqueue(i) for i in range(first, min(n, first + 1000))])
            else:
                for i in range(n):
                    await task.enqueue(i)
            return time.perf_counter() - begin

    return asyncio.run(go())


def worker(concurrency):
    app.run_sync()


def latency(n):
    async def go():
        async with app:

            async def once(i):
                task = await noop.enqueue(i)
                await task.result(10)

            return await round_trips(n, once)

    return asyncio.run(go())
