"""taskiq on a Redis stream: acknowledged after the result is saved."""

import asyncio
import os
import sys
import time

from support import RESULTS, URL, counter, round_trips, together
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

PACKAGES = ("taskiq", "taskiq-redis", "redis")
broker = RedisStreamBroker(url=URL)
if RESULTS:
    broker = broker.with_result_backend(RedisAsyncResultBackend(redis_url=URL))


@broker.task(task_name="noop")
async def noop(x: int) -> int:
    counter.hit()
    return x


@broker.task(task_name="sleep")
async def sleep(x: int) -> None:
    counter.begin()
    await asyncio.sleep(0.01)
    counter.hit()


def enqueue(n, bulk, kind):
    task = {"noop": noop, "sleep": sleep}[kind]

    async def go():
        await broker.startup()
        begin = time.perf_counter()
        if bulk:
            await together(n, lambda i: task.kiq(i))
        else:
            for i in range(n):
                await task.kiq(i)
        took = time.perf_counter() - begin
        await broker.shutdown()
        return took

    return asyncio.run(go())


def worker(concurrency):
    words = ["-m", "taskiq", "worker", "taskiq_adapter:broker", "--workers", "1", "--log-level", "ERROR"]
    os.execv(sys.executable, [sys.executable, *words, "--max-async-tasks", str(concurrency)])


def latency(n):
    async def once(i):
        task = await noop.kiq(i)
        await task.wait_result(check_interval=0.002, timeout=10)

    async def go():
        await broker.startup()
        return await round_trips(n, once)

    return asyncio.run(go())
