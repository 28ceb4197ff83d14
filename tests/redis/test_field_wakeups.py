"""H09: an idle worker starts what may start, and sleeps while nothing may."""

import asyncio
import random

import pytest

from qlab import Queue, Worker
from tests.redis.queue_state import until

SLACK = 1500


async def echo(job):
    return job.data


async def lateness(job):
    """Milliseconds on the server's clock from the add to the start."""
    await job.refresh()
    return job.record.processed_at - job.record.added_at


async def start_idle(start_worker, queue, workers, concurrency):
    for n in range(workers):
        await start_worker(echo, name=f"w{n}", concurrency=concurrency)
    await until(lambda: _nobody_is_awake(queue))


async def _nobody_is_awake(queue):
    return await queue.connection.command("LLEN", queue.keys["wake"]) == 0


@pytest.mark.parametrize(("workers", "concurrency"), [(1, 1), (4, 5)])
async def test_h09_a_a_delayed_job_never_hides_an_immediate_one(queue, start_worker, workers, concurrency):
    rng = random.Random(9)
    await start_idle(start_worker, queue, workers, concurrency)
    for n in range(300):
        adds = [lambda n=n: queue.add("now", n), lambda: queue.add("later", delay=10)]
        now_first = rng.random() < 0.5
        jobs = []
        for add in adds if now_first else reversed(adds):
            jobs.append(await add())
            await asyncio.sleep(rng.uniform(0, 0.005))
        now, later = jobs if now_first else reversed(jobs)
        assert await now.wait_until_finished(0.5 + SLACK / 1000) == n
        assert await lateness(now) <= 500 + SLACK
        await later.remove()


@pytest.mark.slow
async def test_h09_b_a_job_that_is_due_earlier_is_not_kept_waiting_by_a_later_one(queue, start_worker):
    """8 s is more than two blocking waits of an idle worker."""
    await start_idle(start_worker, queue, 1, 1)
    jobs = [await queue.add("a", delay, delay=delay) for delay in (8, 2, 1)]
    for job in reversed(jobs):
        await job.wait_until_finished(15)
        assert 0 <= await lateness(job) - job.data * 1000 <= 500 + SLACK


async def test_h09_c_a_bulk_wakes_all_the_workers_that_it_needs(queue, start_worker):
    release = asyncio.Event()

    async def handler(job):
        await release.wait()

    for n in range(4):
        await start_worker(handler, name=f"w{n}", concurrency=5)
    await until(lambda: _nobody_is_awake(queue))
    jobs = await queue.add_bulk([("a", n) for n in range(20)])
    await until(lambda: _active(queue, 20), limit=5)
    release.set()
    for job in jobs:
        await job.wait_until_finished(5)
        assert await lateness(job) <= 500 + SLACK


async def _active(queue, total):
    return (await queue.get_job_counts("active"))["active"] == total


async def test_h09_d_tiny_delays_start_at_once_and_no_worker_spins(private_redis_url, prefix):
    async with (
        Queue("q", private_redis_url, prefix=prefix) as queue,
        Worker("q", echo, private_redis_url, prefix=prefix) as worker,
    ):
        await until(lambda: worker.healthy)
        for _ in range(20):
            for delay in (0.0015, 0.001, 0.0004, 0):
                job = await queue.add("a", delay, delay=delay)
                await job.wait_until_finished(5)
                assert delay * 1000 <= await lateness(job) <= 500 + SLACK
        await queue.add("later", delay=2)
        before = await _commands(queue)
        await asyncio.sleep(1)
        assert await _commands(queue) - before < 20
        await queue.drain(delayed=True)


async def _commands(queue):
    return (await queue.connection.client.info("stats"))["total_commands_processed"]
