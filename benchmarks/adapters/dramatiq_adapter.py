"""dramatiq: threads, acknowledged messages, heartbeats."""

import asyncio
import signal
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from support import RESULTS, URL, counter, round_trips

PACKAGES = ("dramatiq", "redis")
broker = RedisBroker(url=URL)
if RESULTS:
    broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)
options = {"store_results": True} if RESULTS else {}


@dramatiq.actor(**options)
def noop(x):
    counter.hit()
    return x if RESULTS else None


@dramatiq.actor(**options)
def sleep(x):
    counter.begin()
    time.sleep(0.01)
    counter.hit()


def enqueue(n, bulk, kind):
    actor = {"noop": noop, "sleep": sleep}[kind]
    begin = time.perf_counter()
    for i in range(n):
        actor.send(i)
    return time.perf_counter() - begin


def worker(concurrency):
    one = dramatiq.Worker(broker, worker_threads=concurrency)
    one.start()
    signal.pause()


def latency(n):
    async def once(i):
        noop.send(i).get_result(block=True, timeout=10_000)

    return asyncio.run(round_trips(n, once))
