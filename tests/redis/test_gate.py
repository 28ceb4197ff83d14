"""Governing a whole queue: pause, rate limit, clean, drain, obliterate."""

import asyncio
from datetime import timedelta

import pytest

from qlab import DelayedError, JobFailed, Queue, QueueBusy, RateLimitError
from tests.redis.queue_state import check_invariants, members, until


async def echo(job):
    return job.data


async def test_a_paused_queue_lends_nothing_and_goes_on_when_resumed(queue, start_worker):
    await start_worker(echo)
    await queue.pause()
    assert await queue.is_paused()
    job = await queue.add("a", 1)
    with pytest.raises(TimeoutError):
        await job.wait_until_finished(0.3)
    await queue.resume()
    assert not await queue.is_paused()
    assert await job.wait_until_finished(2) == 1


async def test_a_pause_does_not_make_workers_spin(queue, start_worker):
    await start_worker(echo)
    await queue.pause()
    await queue.add("a", 1)
    await until(lambda: _trip(queue))
    await asyncio.sleep(0.2)
    before = await _trip(queue)
    await asyncio.sleep(0.5)
    assert await _trip(queue) - before <= 2
    await queue.resume()
    await until(lambda: _count(queue, "completed", 1))


async def _trip(queue):
    """The number of the worker's last trip; 0 before its first."""
    memories = await queue.connection.command("KEYS", queue.keys["pump:*"])
    return int((await queue.connection.command("GET", memories[0])).partition("|")[0]) if memories else 0


async def _count(queue, state, total):
    return (await queue.get_job_counts(state))[state] == total


async def test_jobs_that_run_go_on_through_a_pause(queue, start_worker):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(job):
        started.set()
        await release.wait()
        return "done"

    await start_worker(handler)
    job = await queue.add("a")
    await asyncio.wait_for(started.wait(), 5)
    await queue.pause()
    release.set()
    assert await job.wait_until_finished(5) == "done"


async def test_h12_a_limited_job_keeps_its_place_and_its_attempts(queue, start_worker, redis):
    order = []

    async def handler(job):
        order.append((job.data, job.attempts_made))
        if len(order) == 1:
            await queue.rate_limit(0.4)
            raise RateLimitError
        return job.data

    jobs = [await queue.add("a", n) for n in range(3)]
    await start_worker(handler)
    for job in jobs:
        await job.wait_until_finished(5)
    assert order == [(0, 0), (0, 0), (1, 0), (2, 0)]
    first, second = await _starts(redis, queue, jobs[0].id)
    assert second - first >= 400
    assert (await jobs[0].refresh()).attempts_made == 1


async def _starts(redis, queue, job_id):
    entries = await redis.xrange(queue.keys["events"])
    return [int(one["at"]) for _, one in entries if one["event"] == "active" and one["job"] == job_id]


async def test_a_longer_limit_is_not_cut_by_a_shorter_one(queue, redis):
    await queue.rate_limit(60)
    long = int(await redis.hget(queue.keys["meta"], "limited_until"))
    await queue.rate_limit(1)
    assert int(await redis.hget(queue.keys["meta"], "limited_until")) == long


async def test_a_handler_can_put_its_job_off_without_using_an_attempt(queue, start_worker, redis):
    async def handler(job):
        if job.claim == 1:
            raise DelayedError(0.2)
        return job.attempts_made

    await start_worker(handler)
    job = await queue.add("a")
    assert await job.wait_until_finished(5) == 0
    first, second = await _starts(redis, queue, job.id)
    assert second - first >= 200


@pytest.mark.parametrize("delay", [-1, float("nan"), "soon"])
async def test_h21_a_job_that_puts_itself_off_by_nonsense_fails_and_the_worker_goes_on(
    queue, start_worker, delay
):
    async def handler(job):
        if job.data == "bad":
            raise DelayedError(delay)
        return job.data

    await start_worker(handler)
    with pytest.raises(JobFailed, match="ValueError: delay of DelayedError must be"):
        await (await queue.add("a", "bad")).wait_until_finished(5)
    assert await (await queue.add("a", "good")).wait_until_finished(5) == "good"


async def test_a_job_can_put_itself_off_by_a_timedelta(queue, start_worker):
    async def handler(job):
        if job.claim == 1:
            raise DelayedError(timedelta(milliseconds=10))
        return job.attempts_made

    await start_worker(handler)
    assert await (await queue.add("a")).wait_until_finished(5) == 0


async def test_h21_an_attempt_that_passes_its_limit_fails_and_disturbs_nobody(queue, start_worker):
    async def handler(job):
        await asyncio.sleep(60 if job.data == "slow" else 0.3)
        return job.data

    await start_worker(handler, concurrency=3)
    slow = await queue.add("a", "slow", timeout=0.1, attempts=2)
    others = [await queue.add("a", n) for n in range(2)]
    with pytest.raises(JobFailed, match=r"TimeoutError: the attempt took longer than its limit of 0\.1 s"):
        await slow.wait_until_finished(5)
    assert [await job.wait_until_finished(5) for job in others] == [0, 1]
    assert (await slow.refresh()).attempts_made == 2


async def test_a_time_out_of_the_handlers_own_keeps_its_text(queue, start_worker):
    async def handler(job):
        raise TimeoutError("the API did not answer")

    await start_worker(handler)
    job = await queue.add("a", timeout=10)
    with pytest.raises(JobFailed, match="TimeoutError: the API did not answer"):
        await job.wait_until_finished(5)


async def test_cleaning_removes_the_oldest_first_and_says_which(queue, start_worker, redis):
    await start_worker(echo)
    jobs = [await queue.add("a", n) for n in range(5)]
    for job in jobs:
        await job.wait_until_finished(5)
    assert await queue.clean("completed", older_than=60) == []
    assert len(await queue.clean("completed", limit=2)) == 2
    assert len(await queue.clean("completed")) == 3
    assert not any((await members(redis, queue.keys)).values())


async def test_active_jobs_cannot_be_cleaned(queue):
    with pytest.raises(ValueError, match="belong to their workers"):
        await queue.clean("active")
    with pytest.raises(ValueError, match="unknown job state"):
        await queue.clean("done")


@pytest.mark.parametrize("limit", [-1, 1.5, "3"])
async def test_a_clean_with_a_limit_that_is_no_number_removes_nothing(queue, limit):
    await queue.add("a")
    with pytest.raises(ValueError, match="limit must be a whole number of at least 0"):
        await queue.clean("waiting", limit=limit)
    assert (await queue.get_job_counts("waiting"))["waiting"] == 1


async def test_draining_removes_what_waits(queue):
    await queue.add_bulk([("a", n) for n in range(1500)])
    await queue.add("a", priority=1)
    await queue.add("a", delay=60)
    assert await queue.drain() == 1501
    assert await queue.get_job_counts("waiting", "prioritized", "delayed") == {
        "waiting": 0, "prioritized": 0, "delayed": 1,
    }  # fmt: skip
    assert await queue.drain(delayed=True) == 1


async def test_an_obliterated_queue_leaves_no_key(queue, redis, redis_url, prefix):
    async with Queue("other", redis_url, prefix=prefix) as other:
        await other.add("a")
        for options in ({}, {"delay": 60}, {"priority": 1}):
            await other.add("a", **options)
        await other.obliterate()
        assert [key async for key in redis.scan_iter(other.keys["*"])] == []


async def test_what_is_added_while_a_queue_is_obliterated_is_whole_or_gone(queue, redis):
    """Half a job would be the worst: its id is taken, and it never runs."""
    added, stop = [], False

    async def keep_adding():
        while not stop:
            added.append(await queue.add("a", delay=60 * (len(added) % 2)))

    adding = asyncio.create_task(keep_adding())
    try:
        for _ in range(20):
            await queue.obliterate()
    finally:
        stop = True
        await adding
    assert len(added) > 20
    await check_invariants(redis, queue.keys)


async def test_a_queue_with_active_jobs_is_not_obliterated(queue, start_worker):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(job):
        started.set()
        await release.wait()

    await start_worker(handler)
    job = await queue.add("a")
    await asyncio.wait_for(started.wait(), 5)
    with pytest.raises(QueueBusy, match="1 active jobs"):
        await queue.obliterate()
    release.set()
    await job.wait_until_finished(5)
