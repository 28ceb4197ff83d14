"""Callbacks of a worker: each event once, and a callback that fails harms nobody."""

import asyncio

import pytest

from qlab import JobFailed, RateLimitError, Worker
from tests.redis.queue_state import until


async def test_each_end_of_a_job_is_told_once(queue, start_worker):
    seen = []

    async def handler(job):
        if job.name == "bad":
            raise ValueError("no")
        return [1]

    async def on_failed(job, reason):
        await asyncio.sleep(0)
        seen.append(("failed", job.name, reason))

    worker = await start_worker(handler)
    worker.on("completed", lambda job, result: seen.append(("completed", job.name, result)))
    worker.on("retrying", lambda job, reason: seen.append(("retrying", job.name, reason)))
    worker.on("failed", on_failed)
    await (await queue.add("good")).wait_until_finished(5)
    with pytest.raises(JobFailed):
        await (await queue.add("bad", attempts=2)).wait_until_finished(5)
    await until(lambda: len(seen) == 3)
    assert seen == [
        ("completed", "good", "[1]"),
        ("retrying", "bad", "ValueError: no"),
        ("failed", "bad", "ValueError: no"),
    ]


async def test_a_callback_that_fails_is_logged_and_the_worker_goes_on(queue, start_worker, caplog):
    async def handler(job):
        return job.data

    def broken(*_):
        raise RuntimeError("broken callback")

    async def broken_later(*_):
        raise RuntimeError("broken coroutine")

    worker = await start_worker(handler)
    worker.on("completed", broken)
    worker.on("completed", broken_later)
    for n in range(3):
        assert await (await queue.add("a", n)).wait_until_finished(5) == n
    await until(lambda: "broken coroutine" in caplog.text and "broken callback" in caplog.text)


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
async def test_a_callback_that_raises_what_ends_others_ends_nothing(queue, start_worker, caplog, kind):
    async def handler(job):
        return job.data

    def ends(*_):
        raise kind

    worker = await start_worker(handler)
    worker.on("completed", ends)
    for n in range(3):
        assert await (await queue.add("a", n)).wait_until_finished(5) == n
    assert worker.healthy
    await until(lambda: kind.__name__ in caplog.text)


async def test_a_put_back_is_no_end(queue, start_worker):
    seen = []

    async def handler(job):
        if job.claim == 1:
            raise RateLimitError
        return "done"

    worker = await start_worker(handler)
    for event in ("completed", "failed", "retrying"):
        worker.on(event, lambda job, _: seen.append(job.id))
    await (await queue.add("a")).wait_until_finished(5)
    await until(lambda: len(seen) == 1)


def test_an_unknown_event_is_refused():
    with pytest.raises(ValueError, match="unknown event 'done'"):
        Worker("q", print).on("done", print)
