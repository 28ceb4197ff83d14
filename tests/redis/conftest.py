"""A queue of its own for each test, and a check of the invariants when it ends."""

import contextlib

import pytest
import redis as redis_sync

from qlab import Queue, Worker
from tests.redis.flow_state import Bench
from tests.redis.queue_state import check_invariants


@pytest.fixture
async def queue(redis_url, prefix, redis):
    async with Queue("q", redis_url, prefix=prefix) as queue:
        yield queue
    await check_invariants(redis, queue.keys)


@pytest.fixture
async def start_worker(redis_url, prefix):
    """Start workers on the queue of this test; they are closed when it ends."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(handler, **options):
            worker = Worker("q", handler, redis_url, prefix=prefix, **options)
            stack.push_async_callback(worker.close, timeout=5)
            return await worker.start()

        yield start


@pytest.fixture
def redis_sync_client(redis_url):
    with redis_sync.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
async def bench(redis, redis_url, prefix):
    """Flows and a worker driven by hand; when the test ends every invariant of every queue is checked."""
    bench = Bench(redis, redis_url, prefix)
    yield bench
    await bench.close()
