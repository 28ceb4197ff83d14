"""Hashes of jobs that somebody else deleted (an eviction, a careless DEL): only those jobs are lost."""

import pytest

from tests.redis.queue_state import members, until


async def echo(job):
    return job.data


async def lose(redis, queue, job):
    assert await redis.delete(queue.keys.job(job.id)) == 1


async def still_works(queue, worker):
    job = await queue.add("a", "after", remove_on_complete=True)
    assert await job.wait_until_finished(5) == "after"
    assert worker.healthy
    assert not worker.broken.is_set()


@pytest.mark.parametrize("options", [{}, {"priority": 1}, {"delay": 0.05}, {"delay": 0.05, "priority": 1}])
async def test_a_job_that_was_to_run_is_passed_over(queue, start_worker, redis, options):
    await lose(redis, queue, await queue.add("a", **options))
    worker = await start_worker(echo)
    await until(lambda: _is_empty(queue, redis))
    await still_works(queue, worker)


async def _is_empty(queue, redis):
    return not any((await members(redis, queue.keys)).values())


async def test_a_lease_of_nothing_ends_and_others_are_recovered(queue, start_worker, redis):
    jobs = [await queue.add("a", n) for n in range(3)]
    await queue.connection.call(
        "settle_and_take", token="gone", worker="gone", lock=1, trip=1, want=3, count=0
    )
    await lose(redis, queue, jobs[1])
    worker = await start_worker(echo, stalled_interval=0.05)
    assert [await job.wait_until_finished(5) for job in (jobs[0], jobs[2])] == [0, 2]
    assert (await members(redis, queue.keys))["active"] == []
    await still_works(queue, worker)


async def test_retention_goes_on_past_it(queue, start_worker, redis):
    worker = await start_worker(echo)
    jobs = [await queue.add("a", n, remove_on_complete=2) for n in range(2)]
    for job in jobs:
        await job.wait_until_finished(5)
    await lose(redis, queue, jobs[0])
    more = [await queue.add("a", n, remove_on_complete=2) for n in range(2)]
    for job in more:
        await job.wait_until_finished(5)
    await until(lambda: _has_completed(queue, redis, [job.id for job in more]))
    await still_works(queue, worker)


async def _has_completed(queue, redis, ids):
    """In any order: two that ended in the same millisecond have none."""
    return sorted((await members(redis, queue.keys))["completed"]) == sorted(ids)


@pytest.mark.parametrize("state", ["waiting", "prioritized", "delayed", "completed"])
async def test_cleaning_removes_what_is_left_of_it(queue, start_worker, redis, state):
    options = {"prioritized": {"priority": 1}, "delayed": {"delay": 60}}.get(state, {})
    jobs = [await queue.add("a", **options) for _ in range(2)]
    if state == "completed":
        await start_worker(echo)
        for job in jobs:
            await job.wait_until_finished(5)
    await lose(redis, queue, jobs[0])
    assert sorted(await queue.clean(state)) == sorted(job.id for job in jobs)
    assert await _is_empty(queue, redis)
