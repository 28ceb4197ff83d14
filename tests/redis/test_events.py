"""wait_until_finished never misses an end, never hangs, and never mixes two jobs with one id."""

import asyncio
import subprocess
import sys

import pytest

from qlab import JobFailed, JobGone, Queue
from tests.redis.queue_state import until


async def echo(job):
    if job.data == "bad":
        raise ValueError("bad")
    return job.data


async def test_h17_jobs_that_end_and_are_removed_at_once_are_never_missed(queue, start_worker):
    await start_worker(echo, concurrency=20)

    async def one(n):
        job = await queue.add("a", n, remove_on_complete=True)
        assert await job.wait_until_finished(5) == n

    for start in range(0, 500, 50):
        await asyncio.gather(*(one(n) for n in range(start, start + 50)))


async def test_h17_failures_of_removed_jobs_are_never_missed(queue, start_worker):
    await start_worker(echo, concurrency=20)
    jobs = [await queue.add("a", "bad", remove_on_fail=True) for _ in range(50)]
    for job in jobs:
        with pytest.raises(JobFailed, match="ValueError: bad"):
            await job.wait_until_finished(5)


async def test_a_wait_after_the_end_answers_at_once(queue, start_worker):
    await start_worker(echo)
    job = await queue.add("a", 1)
    await until(lambda: _completed(queue))
    assert await job.wait_until_finished(0.5) == 1
    assert [await job.wait_until_finished(limit) for limit in (0, 0.00001)] == [1, 1]
    assert await (await queue.get_job(job.id)).wait_until_finished(0.5) == 1


async def _completed(queue):
    return (await queue.get_job_counts("completed"))["completed"]


async def test_a_wait_that_is_too_short_says_so_and_the_job_goes_on(queue, start_worker):
    job = await queue.add("a", 1)
    with pytest.raises(TimeoutError, match=f"job {job.id} did not finish within 0.1 s; it goes on"):
        await job.wait_until_finished(0.1)
    with pytest.raises(TimeoutError, match="within 0 s"):
        await job.wait_until_finished(0)
    await start_worker(echo)
    assert await job.wait_until_finished(5) == 1


async def test_who_waits_when_the_queue_is_closed_is_told(redis_url, prefix, redis):
    queue = await Queue("q", redis_url, prefix=prefix).start()
    job = await queue.add("a", 1)
    waits = asyncio.create_task(job.wait_until_finished())
    await until(lambda: queue.connection.listener._waiters)
    await queue.close()
    with pytest.raises(RuntimeError, match=f"the queue was closed while job {job.id} was waited for"):
        await asyncio.wait_for(waits, 5)


SECOND_LOOP = """
import asyncio, sys
from qlab import Queue
queue = Queue("q", sys.argv[1], prefix=sys.argv[2])
asyncio.run(queue.add("a", 1))
try:
    asyncio.run(queue.add("a", 2))
except RuntimeError as error:
    print(error)
"""


def test_a_queue_of_another_event_loop_is_refused_in_our_words(redis_url, prefix):
    """As when a module makes the queue, and each command or request calls asyncio.run."""
    done = subprocess.run(
        [sys.executable, "-c", SECOND_LOOP, redis_url, prefix], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("queue 'q' is in use in another event loop: close it there first")


async def test_a_job_that_is_gone_is_never_waited_for(queue, redis):
    job = await queue.add("a", 1)
    await redis.lrem(queue.keys["waiting"], 1, job.id)
    await redis.delete(queue.keys.job(job.id))
    with pytest.raises(JobGone, match="is gone"):
        await job.wait_until_finished(5)


async def test_two_jobs_that_had_the_same_id_each_get_their_own_answer(queue, start_worker):
    await start_worker(echo)
    first = await queue.add("a", "first", job_id="x", remove_on_complete=True)
    assert await first.wait_until_finished(5) == "first"
    second = await queue.add("a", "second", job_id="x", remove_on_complete=True)
    assert not second.duplicate
    assert await second.wait_until_finished(5) == "second"
    assert await first.wait_until_finished(5) == "first"


async def test_results_of_removed_jobs_are_bounded(queue, start_worker, redis):
    await start_worker(echo, concurrency=50)
    jobs = await queue.add_bulk([("a", n, {"remove_on_complete": True}) for n in range(3000)])
    await until(lambda: _all_gone(queue))
    kept = await redis.hlen(queue.keys["results"]) + await redis.hlen(queue.keys["results_old"])
    assert 1000 <= kept <= 2000 + 50
    with pytest.raises(JobGone):
        await jobs[0].wait_until_finished(5)
    assert await jobs[-1].wait_until_finished(5) == 2999


async def _all_gone(queue):
    return sum((await queue.get_job_counts()).values()) == 0


async def test_waiting_leaves_no_waiter_behind(queue, start_worker):
    await start_worker(echo)
    for n in range(20):
        await (await queue.add("a", n)).wait_until_finished(5)
    assert not queue.connection.listener._waiters


async def test_the_stream_is_read_only_while_somebody_waits(queue, start_worker, monkeypatch):
    monkeypatch.setattr("qlab.events.BLOCK_MS", 50)
    await start_worker(echo)

    async def nobody_reads():
        return "qlab-events" not in {task.get_name() for task in asyncio.all_tasks()}

    for n in range(3):
        assert await (await queue.add("a", n)).wait_until_finished(5) == n
        await until(nobody_reads)


async def test_a_queue_closes_while_its_event_stream_is_busy(redis_url, prefix, start_worker):
    await start_worker(echo, concurrency=20)
    async with Queue("q", redis_url, prefix=prefix) as queue:
        await (await queue.add("a", 1)).wait_until_finished(5)
        await queue.add_bulk([("a", n) for n in range(3000)])
    assert "qlab-events" not in {task.get_name() for task in asyncio.all_tasks()}
