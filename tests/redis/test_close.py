"""Closing a worker: running jobs end, others stay, nothing is lost, no attempt is counted."""

import asyncio
import threading

import pytest

from qlab import Worker
from tests.redis.queue_state import until


async def test_a_graceful_close_lets_the_running_job_end_and_takes_no_other(queue, start_worker):
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(job):
        started.set()
        await release.wait()
        return "done"

    worker = await start_worker(handler)
    jobs = [await queue.add("a", n) for n in range(2)]
    await asyncio.wait_for(started.wait(), 5)
    closing = asyncio.create_task(worker.close())
    await until(lambda: not worker._pump.taking)
    assert not closing.done()
    release.set()
    await asyncio.wait_for(closing, 5)
    assert await jobs[0].wait_until_finished(5) == "done"
    assert (await jobs[1].refresh()).state == "waiting"


async def test_h20_the_lease_is_renewed_while_a_close_waits(queue, start_worker):
    started = asyncio.Event()

    async def handler(job):
        started.set()
        await asyncio.sleep(1.0)

    options = {"lock_duration": 0.3, "stalled_interval": 0.1}
    worker = await start_worker(handler, name="A", **options)
    job = await queue.add("a")
    await asyncio.wait_for(started.wait(), 5)
    await start_worker(handler, name="B", **options)
    await worker.close()
    await job.refresh()
    assert (job.state, job.claim, job.stalled_counter, job.record.worker) == ("completed", 1, 0, "A")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_h21_a_close_with_a_limit_gives_the_job_back_uncounted(queue, start_worker, stubborn):
    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(job):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not stubborn:
                ended.set()
                raise
            await asyncio.sleep(60)

    worker = await start_worker(handler)
    job = await queue.add("a", attempts=2)
    await asyncio.wait_for(started.wait(), 5)
    await asyncio.wait_for(worker.close(timeout=0.1), 3)
    assert ended.is_set() is not stubborn
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter) == ("waiting", 0, 0)


async def test_a_thread_that_does_not_end_cannot_hold_up_a_close_with_a_limit(queue, start_worker):
    started, release = threading.Event(), threading.Event()

    def handler(job):
        started.set()
        release.wait(60)
        return "late"

    worker = await start_worker(handler)
    job = await queue.add("a")
    await until(started.is_set)
    await asyncio.wait_for(worker.close(timeout=0.1), 4)
    assert ((await job.refresh()).state, job.attempts_made) == ("waiting", 0)
    release.set()


async def test_closing_leaves_no_task_and_no_connection(queue, redis_url, prefix):
    async def handler(job):
        return None

    await queue.add("a")
    before = asyncio.all_tasks()
    async with Worker("q", handler, redis_url, prefix=prefix, concurrency=3) as worker:
        await until(lambda: worker.healthy)
        await until(lambda: _completed(queue))
    assert asyncio.all_tasks() == before


async def _completed(queue):
    return (await queue.get_job_counts("completed"))["completed"]


async def test_a_close_that_is_cancelled_or_called_twice_leaves_nothing(queue, redis_url, prefix):
    release, tasks = asyncio.Event(), asyncio.all_tasks()

    async def handler(job):
        await release.wait()
        return "done"

    worker = await Worker("q", handler, redis_url, prefix=prefix).start()
    job = await queue.add("a")
    await until(lambda: worker.running)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.close(), 0.05)
    release.set()
    await asyncio.gather(worker.close(), worker.close())
    assert (await job.refresh()).return_value == "done"
    await until(lambda: asyncio.all_tasks() == tasks)


async def test_a_worker_starts_once(queue, start_worker):
    async def handler(job):
        return None

    worker = await start_worker(handler)
    with pytest.raises(RuntimeError, match="started before"):
        await worker.start()


async def test_closing_a_worker_that_never_started_is_fine(redis_url, prefix):
    await Worker("q", print, redis_url, prefix=prefix).close()
