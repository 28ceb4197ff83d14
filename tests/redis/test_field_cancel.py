"""H21: a cancellation of the job's own, its time limit, and a shutdown are three different things."""

import asyncio
import time

import pytest

from qlab import JobFailed
from tests.redis.queue_state import read_events

SLACK = 1.5


async def inner_task_cancelled(job):
    inner = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner


async def raises_it(job):
    raise asyncio.CancelledError("mine")


async def takes_too_long(job):
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("bad", "timeout", "reason"),
    [
        (inner_task_cancelled, None, "^job .* failed: CancelledError"),
        (raises_it, None, "^job .* failed: CancelledError: mine$"),
        (takes_too_long, 0.2, "TimeoutError: the attempt took longer than its limit of 0.2 s"),
    ],
)
async def test_h21_abc_it_is_a_failure_and_disturbs_nobody(queue, start_worker, redis, bad, timeout, reason):
    """Two of the three slots hold a job from before to after; the next job gets the third one."""
    release, cancelled = asyncio.Event(), []

    async def handler(job):
        if job.name == "bad":
            await bad(job)
        elif job.name == "beside":
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.append(job.id)
                raise
        return job.name

    worker = await start_worker(handler, concurrency=3)
    beside = [await queue.add("beside") for _ in range(2)]
    for _ in range(3):
        job = await queue.add("bad", attempts=2, timeout=timeout)
        after = await queue.add("after")
        with pytest.raises(JobFailed, match=reason):
            await job.wait_until_finished(5)
        assert await after.wait_until_finished(5) == "after"
        await job.refresh()
        await after.refresh()
        assert (job.attempts_made, job.claim, job.stalled_counter) == (2, 2, 0)
        assert after.record.processed_at - job.record.finished_at <= 500 + SLACK * 1000
    assert worker.healthy
    assert not cancelled
    release.set()
    assert [await job.wait_until_finished(5) for job in beside] == ["beside"] * 2
    assert len(await read_events(redis, queue.keys, "retrying")) == 3


async def test_h21_c_a_time_limit_also_ends_the_attempt_of_a_handler_that_swallows_it(queue, start_worker):
    """It is told once; what it returns afterwards comes too late to be a success."""

    async def handler(job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "too late"

    await start_worker(handler)
    job = await queue.add("a", timeout=0.1)
    with pytest.raises(JobFailed, match="took longer than its limit"):
        await job.wait_until_finished(5)


async def test_h21_d_a_swallowed_cancellation_cannot_hold_up_a_close(queue, start_worker):
    started = asyncio.Event()

    async def handler(job):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    worker = await start_worker(handler)
    job = await queue.add("a", attempts=2)
    await asyncio.wait_for(started.wait(), 5)
    before = time.monotonic()
    await worker.close(timeout=2)
    assert 2 <= time.monotonic() - before <= 3 + SLACK
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter) == ("waiting", 0, 0)


async def test_h21_d_what_a_handler_returns_after_a_swallowed_cancellation_counts(queue, start_worker):
    """It was asked to stop and has finished instead: running it again would only repeat it."""
    started = asyncio.Event()

    async def handler(job):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished quickly"

    worker = await start_worker(handler)
    job = await queue.add("a")
    await asyncio.wait_for(started.wait(), 5)
    await worker.close(timeout=0.1)
    assert await job.wait_until_finished(5) == "finished quickly"
    assert (await job.refresh()).state == "completed"


async def test_h21_e_a_slow_clean_up_completes_and_the_job_is_given_back(queue, start_worker):
    started, cleaned = asyncio.Event(), []

    async def handler(job):
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1)
            cleaned.append(job.id)

    worker = await start_worker(handler)
    job = await queue.add("a", attempts=2)
    await asyncio.wait_for(started.wait(), 5)
    await worker.close(timeout=0.1)
    assert cleaned == [job.id]
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter, job.claim) == ("waiting", 0, 0, 1)
