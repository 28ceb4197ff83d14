"""A server that answers and refuses: full, read-only, without replicas, a snapshot that failed."""

import asyncio

import pytest

from qlab import Queue, Worker
from qlab.errors import RedisFull
from tests.redis.queue_state import check_invariants, until

FAST = {"lock_duration": 0.5, "stalled_interval": 0.1}


@pytest.fixture
async def full_queue(private_redis_url, prefix):
    async with Queue("q", private_redis_url, prefix=prefix) as queue:
        yield queue
        await check_invariants(queue.connection.client, queue.keys)


async def test_a_job_that_runs_while_redis_is_full_keeps_its_lease_and_runs_once(
    full_queue, private_redis_url, prefix
):
    """Renewing a lease takes no memory; giving the job out again would run it twice."""
    queue, starts, go_on = full_queue, [], asyncio.Event()

    async def handler(job):
        starts.append(job.id)
        await go_on.wait()
        return "x" * 1000

    options = {"prefix": prefix, "concurrency": 2, "max_stalled_count": 5, **FAST}
    async with (
        Worker("q", handler, private_redis_url, name="A", **options) as one,
        Worker("q", handler, private_redis_url, name="B", **options) as other,
    ):
        jobs = [await queue.add("a") for _ in range(4)]
        await until(lambda: len(starts) == 4)
        before = await _deadline(queue)
        await queue.connection.command("CONFIG", "SET", "maxmemory", 1_000_000)
        go_on.set()
        await until(lambda: not one.healthy and not other.healthy)
        with pytest.raises(RedisFull, match="is full and stored nothing"):
            await queue.add("b")
        await until(lambda: _later(queue, before + 1500))  # three locks have passed
        assert await queue.get_job_counts("active", "waiting") == {"active": 4, "waiting": 0}
        await queue.connection.command("CONFIG", "SET", "maxmemory", 0)
        for job in jobs:
            assert await job.wait_until_finished(10) == "x" * 1000
            assert ((await job.refresh()).claim, job.stalled_counter) == (1, 0)
    assert sorted(starts) == sorted(job.id for job in jobs)


async def _deadline(queue):
    return (await queue.connection.command("ZRANGE", queue.keys["active"], 0, 0, "WITHSCORES"))[0][1]


async def _later(queue, deadline):
    return await _deadline(queue) > deadline
