"""Priorities: no priority first, then the lowest number; within one number first come, first served."""

import pytest

from tests.redis.queue_state import members, until


async def order_of(queue, start_worker, total):
    order = []

    async def handler(job):
        order.append(job.data)
        if job.name == "fails-once" and job.attempts_made == 0:
            raise RuntimeError("once")

    await start_worker(handler)
    await until(lambda: _done(queue, total))
    return order


async def _done(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def test_jobs_run_by_priority_and_in_order_within_one(queue, start_worker):
    for data, priority in [("c1", 7), ("b1", 2), ("a1", None), ("c2", 7), ("b2", 2), ("a2", None)]:
        await queue.add("a", data, priority=priority)
    assert await order_of(queue, start_worker, 6) == ["a1", "a2", "b1", "b2", "c1", "c2"]


async def test_a_job_that_comes_back_is_the_next_of_its_priority(queue, start_worker):
    await queue.add("fails-once", "first", priority=2, attempts=2)
    await queue.add("fails-once", "second", priority=2, attempts=2)
    await queue.add("a", "urgent", priority=1)
    assert await order_of(queue, start_worker, 3) == ["urgent", "first", "first", "second", "second"]


async def test_a_delayed_job_keeps_its_priority_when_it_is_due(queue, redis):
    job = await queue.add("a", delay=60, priority=3)
    assert job.state == "delayed"
    await job.promote()
    assert (await job.refresh()).state == "prioritized"
    assert (await members(redis, queue.keys))["prioritized"] == [job.id]


@pytest.mark.parametrize("priority", [0, -1, 2**21 + 1, 1.5, True, "1"])
async def test_a_priority_outside_its_range_is_refused(queue, priority):
    with pytest.raises(ValueError, match="priority must be a whole number from 1 to 2097152"):
        await queue.add("a", priority=priority)
    assert sum((await queue.get_job_counts()).values()) == 0
