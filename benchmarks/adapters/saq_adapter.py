"""SAQ: a list of active jobs and a sweep of stuck ones."""

import asyncio
import time

from saq import Queue, Worker
from support import URL, counter, round_trips, together

PACKAGES = ("saq", "redis", "hiredis")


async def noop(ctx, *, x):
    counter.hit()
    return x


async def sleep(ctx, *, x):
    counter.begin()
    await asyncio.sleep(0.01)
    counter.hit()


def _run(use):
    async def go():
        queue = Queue.from_url(URL)
        await queue.connect()
        return await use(queue)

    return asyncio.run(go())


def enqueue(n, bulk, kind):
    async def use(queue):
        begin = time.perf_counter()
        if bulk:
            await together(n, lambda i: queue.enqueue(kind, x=i, retries=3))
        else:
            for i in range(n):
                await queue.enqueue(kind, x=i, retries=3)
        took = time.perf_counter() - begin
        await queue.disconnect()
        return took

    return _run(use)


def worker(concurrency):
    _run(lambda queue: Worker(queue, functions=[noop, sleep], concurrency=concurrency).start())


def latency(n):
    return _run(lambda queue: round_trips(n, lambda i: queue.apply("noop", x=i, poll_interval=0.002)))
