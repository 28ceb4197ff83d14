"""A worker with many slots has two trips on their way at once, and nothing else changes by that."""

import asyncio
import random

import pytest

from qlab import RedisUnavailable
from qlab.pump import TWO_LANES
from tests.redis.queue_state import read_events, until

SLOTS = TWO_LANES


async def has_counts(queue, **wanted):
    return await queue.get_job_counts(*wanted) == wanted


async def test_while_one_trip_is_on_its_way_the_jobs_of_the_other_half_run(queue, start_worker):
    """The first trip that settles something is held up; the other half goes on without it."""
    free, held, ran = asyncio.Event(), [], []

    async def handler(job):
        ran.append(job.data)

    worker = await start_worker(handler, concurrency=SLOTS)
    call = worker.connection.call

    async def slow(name, *words, **fixed):
        if name == "settle_and_take" and fixed["count"] and not held:
            held.append(fixed)
            await free.wait()
        return await call(name, *words, **fixed)

    worker.connection.call = slow
    await queue.add_bulk([("a", n) for n in range(10 * SLOTS)])
    await until(lambda: held and len(ran) == 10 * SLOTS)
    assert (await queue.get_job_counts("active"))["active"] == held[0]["count"]
    free.set()
    await until(lambda: has_counts(queue, completed=10 * SLOTS))
    assert sorted(ran) == list(range(10 * SLOTS))


@pytest.mark.parametrize("slots", [SLOTS - 1, SLOTS, SLOTS + 1])
async def test_never_more_jobs_than_slots_are_held(queue, start_worker, slots):
    """Also not when both lanes ask at once."""
    most = 0

    async def handler(job):
        nonlocal most
        most = max(most, worker.running)
        await asyncio.sleep(random.random() / 100)

    await queue.add_bulk([("a", n) for n in range(20 * slots)])
    worker = await start_worker(handler, concurrency=slots)
    await until(lambda: has_counts(queue, completed=20 * slots))
    assert slots - 2 <= most <= slots


async def test_lost_replies_in_both_lanes_run_nothing_twice(queue, start_worker, redis):
    rng, ran = random.Random(1), []

    async def handler(job):
        ran.append(job.data)

    worker = await start_worker(handler, concurrency=SLOTS)
    call = worker.connection.call

    async def lossy(name, *words, **fixed):
        answer = await call(name, *words, **fixed)
        if name == "settle_and_take" and rng.random() < 0.2:
            raise RedisUnavailable("the reply was lost")
        return answer

    worker.connection.call = lossy
    await queue.add_bulk([("a", n) for n in range(100)])
    await until(lambda: has_counts(queue, completed=100), limit=30)
    assert sorted(ran) == list(range(100))
    assert len(await read_events(redis, queue.keys, "active")) == 100
    worker.connection.call = call


async def test_a_job_that_must_run_alone_does(queue, start_worker, redis):
    running, beside = set(), []

    async def handler(job):
        running.add(job.id)
        await asyncio.sleep(0.01)
        if job.name == "suspect":
            beside.append(len(running) - 1)
        running.discard(job.id)

    names = ["suspect" if n % 10 == 5 else "a" for n in range(50)]
    jobs = await queue.add_bulk([(name, None) for name in names])
    for job in jobs:
        if job.name == "suspect":
            await redis.hset(queue.keys.job(job.id), "alone", 1)
    await start_worker(handler, concurrency=SLOTS)
    await until(lambda: has_counts(queue, completed=50))
    assert beside == [0] * 5


async def test_an_outage_is_reported_once(queue, start_worker):
    """Not once for each lane."""
    errors, down = [], False

    async def handler(_):
        await asyncio.sleep(0.001)

    worker = await start_worker(handler, concurrency=SLOTS)
    worker.on("error", errors.append)
    call, refused = worker.connection.call, []

    async def refusing(name, *words, **fixed):
        if name == "settle_and_take" and down:
            refused.append(fixed["trip"])
            raise RedisUnavailable("away")
        return await call(name, *words, **fixed)

    worker.connection.call = refusing
    await queue.add_bulk([("a", n) for n in range(500)])
    await until(lambda: worker.running)
    down = True
    await until(lambda: len(refused) > 6)
    down = False
    await until(lambda: has_counts(queue, completed=500))
    assert [str(error) for error in errors] == ["away"]
