"""What one job does to the task that runs it is not felt by the next one, and no slot is ever lost."""

import asyncio
import contextvars
import resource
import threading

import pytest

from qlab import Backoff, JobFailed, Queue
from tests.redis import sandbox_handlers as handlers
from tests.redis.queue_state import until

TENANT = contextvars.ContextVar("tenant", default="nobody")
TABLE = contextvars.ContextVar("table")


class Uncomparable:
    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")  # as arrays of numpy say

    __hash__ = object.__hash__


async def test_a_context_variable_that_one_job_sets_is_not_seen_by_the_next(queue, start_worker):
    TABLE.set(Uncomparable())

    async def handler(job):
        seen = TENANT.get()
        TENANT.set(job.data)
        TABLE.set(Uncomparable())
        return seen

    await start_worker(handler)
    for tenant in ("a", "b", "c"):
        assert await (await queue.add("n", tenant)).wait_until_finished(5) == "nobody"


async def test_handlers_see_the_context_in_which_the_worker_was_started(queue, start_worker):
    TENANT.set("ours")

    async def handler(job):
        return TENANT.get()

    await start_worker(handler)
    TENANT.set("later")
    assert await (await queue.add("n")).wait_until_finished(5) == "ours"


async def cancels_itself(job):
    asyncio.current_task().cancel()
    await asyncio.sleep(60)


async def swallows_its_own_cancellation(job):
    """As libraries do that make a time-out of it and do not call `uncancel`."""
    asyncio.current_task().cancel()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "swallowed"


async def ends_before_its_own_cancellation_arrives(job):
    asyncio.current_task().cancel()
    return "ended"


@pytest.mark.parametrize(
    ("odd", "outcome"),
    [
        (cancels_itself, "CancelledError"),
        (swallows_its_own_cancellation, "swallowed"),
        (ends_before_its_own_cancellation_arrives, "ended"),
    ],
)
async def test_h21_a_handler_that_cancels_its_own_task_costs_no_slot(queue, start_worker, odd, outcome):
    async def handler(job):
        await asyncio.sleep(0)
        return await odd(job) if job.name == "odd" else job.name

    worker = await start_worker(handler)
    for _ in range(3):
        job, after = await queue.add("odd"), await queue.add("after")
        try:
            assert await job.wait_until_finished(5) == outcome
        except JobFailed as error:
            assert error.reason == outcome  # noqa: PT017 - either of the two
        assert await after.wait_until_finished(5) == "after"
        assert (await job.refresh()).claim == 1
    await worker.close(timeout=1)
    assert worker.running == 0


async def test_an_attempt_that_cannot_be_started_fails_and_the_worker_goes_on(queue, start_worker, caplog):
    """The machine has no file descriptor left for the process of a sandbox."""
    worker = await start_worker(handlers.handle, sandbox=True)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    await until(lambda: worker.healthy)
    await until(lambda: worker._pump._watching is not None)  # all its connections are open
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        job = await queue.add("a", attempts=2, backoff=Backoff.fixed(0.05))
        await until(lambda: "Too many open files" in caplog.text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (await job.wait_until_finished(20))["data"] is None
    assert (await job.refresh()).attempts_made == 2


async def test_a_backoff_that_cannot_be_read_fails_no_runner(queue, redis, start_worker):
    """Another program wrote it; the attempt is retried at once, and the reason says why."""
    job = await queue.add("a", attempts=2, backoff=Backoff.fixed(1))
    await redis.hset(queue.keys.job(job.id), "backoff", "linear")

    async def handler(job):
        raise OSError("down")

    await start_worker(handler)
    with pytest.raises(JobFailed, match="OSError: down"):
        await job.wait_until_finished(5)
    assert (await job.refresh()).attempts_made == 2


async def test_a_thread_with_an_event_loop_of_its_own_does_not_break_the_worker(queue, start_worker):
    """`asyncio.run` in a plain `def`: the connections of the worker's loop must not be used there."""
    loop = asyncio.get_running_loop()

    def handler(job):
        if job.name == "wrong":
            asyncio.run(job.update_progress(50))
        asyncio.run_coroutine_threadsafe(job.update_progress(job.data), loop).result()

    worker = await start_worker(handler)
    for n in range(3):
        with pytest.raises(JobFailed, match="RuntimeError: queue 'q' is in use in another event loop"):
            await (await queue.add("wrong")).wait_until_finished(5)
        job = await queue.add("right", n)
        await job.wait_until_finished(5)
        assert (await job.refresh()).progress == n
    await worker.close()


async def test_a_queue_that_was_closed_may_be_used_in_another_event_loop(redis_url, prefix):
    queue = Queue("q", redis_url, prefix=prefix)

    async def add(n):
        async with queue:
            return (await queue.add("a", n)).data

    assert [await asyncio.to_thread(asyncio.run, add(n)) for n in range(3)] == [0, 1, 2]


async def test_h21_c_a_thread_that_passes_its_limit_holds_up_nobody(queue, start_worker, caplog):
    release = threading.Event()

    def handler(job):
        if job.name == "hang":
            release.wait(60)
        return job.name

    await start_worker(handler)
    try:
        for _ in range(3):
            hung, after = await queue.add("hang", timeout=0.1), await queue.add("after", timeout=5)
            with pytest.raises(JobFailed, match="TimeoutError: the attempt took longer"):
                await hung.wait_until_finished(5)
            assert await after.wait_until_finished(5) == "after"
            assert f"job {hung.id} passed its limit, but its thread goes on" in caplog.text
    finally:
        release.set()
