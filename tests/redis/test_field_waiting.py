"""H17 and H18: waiting for jobs that are gone at once, and what they leave behind."""

import asyncio
import contextlib
import time

import pytest
import redis.asyncio as redis_async

from qlab import JobFailed, JobGone, Queue, Worker
from tests.redis.queue_state import check_invariants, until


async def echo(job):
    if job.name == "bad":
        raise ValueError(f"bad {job.data}")
    return job.data


@contextlib.asynccontextmanager
async def private(url, prefix, handler, concurrency):
    """A queue with a worker, and a plain client, on a server that nobody else uses."""
    async with redis_async.Redis.from_url(url, decode_responses=True) as client:
        async with (
            Queue("q", url, prefix=prefix) as queue,
            Worker("q", handler, url, prefix=prefix, concurrency=concurrency) as worker,
        ):
            await until(lambda: worker.healthy)
            yield queue, client
        await check_invariants(client, queue.keys)


async def add_and_wait(queue, n):
    """Seconds from the call of wait_until_finished to its answer, which must be this job's."""
    name, options = [("a", {"remove_on_complete": True}), ("bad", {"remove_on_fail": True})][n % 4 == 3]
    job = await queue.add(name, n, **options)
    before = time.monotonic()
    if name == "a":
        assert await job.wait_until_finished(timeout=5) == n
    else:
        with pytest.raises(JobFailed, match=f"^job {job.id} failed: ValueError: bad {n}$"):
            await job.wait_until_finished(timeout=5)
    return time.monotonic() - before


async def test_h17_no_end_is_missed_and_nothing_is_left_behind(private_redis_url, prefix):
    async with private(private_redis_url, prefix, echo, 20) as (queue, client):
        tasks, connections = asyncio.all_tasks(), await _connections(client)
        took = []
        for start in range(0, 2000, 50):
            took += await asyncio.gather(*(add_and_wait(queue, n) for n in range(start, start + 50)))
        assert sorted(took)[int(len(took) * 0.99)] < 1
        assert not queue.connection.listener._waiters
        assert len(asyncio.all_tasks() - tasks) <= 1 + 2  # the one reader of events; the worker's own change
        assert await _connections(client) - connections <= 50 + 1  # a pool for 50 callers, and the reader
    assert "qlab-events" not in {task.get_name() for task in asyncio.all_tasks()}
    async with redis_async.Redis.from_url(private_redis_url) as client:
        await until(lambda: _is_alone(client))


async def _connections(client):
    return (await client.info("clients"))["connected_clients"]


async def _is_alone(client):
    return await _connections(client) == 1


async def test_h17_waits_that_come_late_are_answered_at_once_and_rightly(queue, start_worker):
    await start_worker(echo, concurrency=20)
    jobs = await queue.add_bulk([("a", n, {"remove_on_complete": True}) for n in range(200)])
    await until(lambda: _empty(queue))
    await asyncio.sleep(0.5)
    for n, job in enumerate(jobs):
        async with asyncio.timeout(1):
            assert await job.wait_until_finished(timeout=5) == n


async def _empty(queue):
    return sum((await queue.get_job_counts()).values()) == 0


async def test_h17_a_wait_for_a_job_whose_result_is_no_longer_kept_says_so_at_once(
    queue, start_worker, redis
):
    await start_worker(echo, concurrency=20)
    jobs = await queue.add_bulk([("a", n, {"remove_on_complete": True}) for n in range(200)])
    await until(lambda: _empty(queue))
    await redis.delete(queue.keys["results"], queue.keys["results_old"])
    for job in jobs:
        async with asyncio.timeout(1):
            with pytest.raises(JobGone):
                await job.wait_until_finished(timeout=5)


async def test_h18_results_of_removed_jobs_are_bounded_in_bytes(queue, start_worker, redis):
    async def handler(job):
        return "x" * 60_000

    await start_worker(handler, concurrency=5)
    jobs = await queue.add_bulk([("a", n, {"remove_on_complete": True}) for n in range(300)])
    await until(lambda: _empty(queue))
    kept = [await redis.hvals(queue.keys[name]) for name in ("results", "results_old")]
    assert sum(len(text) for texts in kept for text in texts) <= 8e6 + 2 * 5 * 60_002
    assert len(await jobs[-1].wait_until_finished(5)) == 60_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["result", "failure"])
async def test_h18_twenty_thousand_removed_jobs_leave_no_memory_behind(private_redis_url, prefix, kind):
    """The cap is 10,000 events here: the stream's memory and the keys do not depend on the payloads."""

    async def handler(job):
        if kind == "failure":
            raise RuntimeError("x" * 100_000)
        return "x" * 10_000

    options = {"remove_on_complete": True, "remove_on_fail": True}
    async with private(private_redis_url, prefix, handler, 50) as (queue, client):
        await queue.add("a", **options)
        await until(lambda: _empty(queue))
        before = (await client.info("memory"))["used_memory"]
        keys = await client.dbsize()
        for _ in range(20):
            await queue.add_bulk([("a", n, options) for n in range(1000)])
            await until(lambda: _empty(queue), limit=60)
        assert await client.xlen(queue.keys["events"]) <= 10_000 + 200
        assert await client.memory_usage(queue.keys["events"], samples=0) < 15e6
        assert (await client.info("memory"))["used_memory"] - before < 20e6
        assert abs(await client.dbsize() - keys) <= 10
        async with Queue("q", private_redis_url, prefix=prefix) as another:
            await another.add_bulk([("a", n, options) for n in range(1000)])
            assert await client.xlen(queue.keys["events"]) <= 10_000 + 200
        await until(lambda: _empty(queue), limit=60)
