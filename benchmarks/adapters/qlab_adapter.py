"""qlab with its defaults: leases, stalled checks, events, retention, results."""

import asyncio
import time

import hiredis
import redis
from support import URL, counter, round_trips

from qlab import Queue, Worker

PACKAGES = (redis.__name__, hiredis.__name__)


async def handle(job):
    if job.name == "sleep":
        counter.begin()
        await asyncio.sleep(0.01)
    counter.hit()
    return job.data["x"]


def enqueue(n, bulk, kind):
    async def go():
        async with Queue("bench", URL) as queue:
            begin = time.perf_counter()
            if bulk:
                for first in range(0, n, 1000):
                    await queue.add_bulk([(kind, {"x": i}) for i in range(first, min(n, first + 1000))])
            else:
                for i in range(n):
                    await queue.add(kind, {"x": i})
            return time.perf_counter() - begin

    return asyncio.run(go())


def worker(concurrency):
    Worker("bench", handle, URL, concurrency=concurrency).run()


def latency(n):
    async def go():
        async with Queue("bench", URL) as queue:

            async def once(i):
                job = await queue.add("noop", {"x": i})
                await job.wait_until_finished(10)

            return await round_trips(n, once)

    return asyncio.run(go())
