"""The recorder sees what really happened on a queue, and nothing that happened elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis_async

from qlab import Job, Queue, Worker
from qlab.classroom.processes import LabError
from qlab.classroom.recorder import Recording
from qlab.keys import Keys


@pytest.fixture
async def queue(prefix: str) -> AsyncIterator[Queue]:
    async with Queue("watched", prefix=prefix) as queue:
        yield queue


@asynccontextmanager
async def recorded(redis: redis_async.Redis, prefix: str, name: str = "watched") -> AsyncIterator[Recording]:
    recording = Recording(redis, Keys(name, prefix), lambda worker: worker)
    await recording.begin()
    watching = asyncio.create_task(recording.watch())
    try:
        yield recording
    finally:
        recording.finish()
        await watching
        await recording.look()


def kinds(recording: Recording) -> list[str]:
    return [event.kind for event in recording.events]


async def done(job: Job) -> str:
    return "done"


async def test_a_job_from_added_to_completed(redis: redis_async.Redis, prefix: str, queue: Queue) -> None:
    async with recorded(redis, prefix) as run, Worker("watched", done, prefix=prefix, name="A"):
        await (await queue.add("x")).wait_until_finished(10)
        await run.seen("completed", "A")
    assert kinds(run) == ["added", "taken", "completed"]
    assert run.tally("runs", "acks", "charges") == {"runs": 1, "acks": 1, "charges": 0}
    assert run.events[1].lane == "A"


async def test_what_happened_before_the_recording_is_not_in_it(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    await queue.add("before")
    async with recorded(redis, prefix) as run:
        await queue.add("after")
        await run.seen("added")
    assert kinds(run) == ["added"]


async def test_another_queue_and_another_prefix_are_not_seen(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    async with (
        recorded(redis, prefix) as run,
        Queue("other", prefix=prefix) as other,
        Queue("watched", prefix=f"{prefix}:x") as elsewhere,
    ):
        await other.add("x")
        await elsewhere.add("x")
        await queue.add("mine")
        await run.seen("added")
    assert run.counts["runs"] == 0
    assert run.count("added") == 1


async def test_renewals_are_seen_as_the_deadline_rises(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    enough = asyncio.Event()

    async def long(job: Job) -> None:
        await enough.wait()

    options = {"lock_duration": 2.0, "lock_renew_time": 0.1, "stalled_interval": 60}
    async with recorded(redis, prefix) as run, Worker("watched", long, prefix=prefix, name="A", **options):
        job = await queue.add("x")
        await run.seen("renewed", "A", times=3)
        enough.set()
        await job.wait_until_finished(10)
        await run.seen("completed")
    assert run.counts["stalled"] == 0
    assert "gia hạn" not in run.timeline("t").text()
    assert "A gia hạn khoá đều đặn." in run.timeline("t", renewals="A").text()


async def test_a_lease_that_runs_out_is_seen_with_its_owner(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    """A worker that is driven by hand takes the job and then never renews."""
    idle = Worker("watched", done, prefix=prefix, name="A", lock_duration=0.2)
    release = asyncio.Event()

    async def stuck(job: Job) -> None:
        await release.wait()

    idle._handler = stuck
    async with recorded(redis, prefix) as run:
        job = await queue.add("x")
        assert await idle.step() == 1
        async with Worker("watched", done, prefix=prefix, name="B", stalled_interval=0.1):
            await job.wait_until_finished(10)
            await run.seen("completed", "B")
        release.set()
    await idle.close()
    assert kinds(run) == ["added", "taken", "expired", "stalled", "taken", "completed"]
    expired = run.events[2]
    assert (expired.lane, expired.claim) == ("A", 1)
    assert expired.at - run.at("taken", "A") >= 0.2 - 1e-6  # times are rounded to 0.1 ms
    assert run.at("stalled") >= expired.at


async def test_a_failure_carries_its_reason(redis: redis_async.Redis, prefix: str, queue: Queue) -> None:
    async def broken(job: Job) -> None:
        raise ValueError("no such order")

    async with recorded(redis, prefix) as run, Worker("watched", broken, prefix=prefix, name="A"):
        await queue.add("x")
        await run.seen("failed", "A")
    assert "no such order" in run.events[-1].note


async def test_waiting_for_what_never_comes_ends_in_a_sentence(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    async with recorded(redis, prefix) as run:
        await queue.add("x")
        await run.seen("added")
        with pytest.raises(LabError, match=r"Đã chờ 0\.1 giây mà chưa thấy «A taken»; .*: broker added\."):
            await run.seen("taken", "A", within=0.1)
        with pytest.raises(LabError, match="chưa thấy «stalled»"):
            run.at("stalled")


async def test_processes_and_the_provider_are_witnesses_too(redis: redis_async.Redis, prefix: str) -> None:
    async with recorded(redis, prefix) as run:
        run.witness("died", "A", "SIGKILL", run._start + 1.5)
    assert (run.events[0].kind, run.events[0].note, run.events[0].at) == ("died", "SIGKILL", 1.5)
    assert run.elapsed > 0
    assert repr(run).startswith("Recording({'runs': 0,")


async def test_a_picture_can_leave_out_what_happened_to_other_jobs(
    redis: redis_async.Redis, prefix: str, queue: Queue
) -> None:
    async with recorded(redis, prefix) as run, Worker("watched", done, prefix=prefix, name="A"):
        for _ in range(2):
            await (await queue.add("x")).wait_until_finished(10)
        run.witness("died", "A", "SIGKILL", 0.0)
        await run.seen("completed", "A", times=2)
    drawn = run.timeline("t", job=1).events
    assert sorted({event.job for event in drawn}) == [0, 1]
    assert [event.kind for event in drawn if event.job == 1] == ["added", "taken", "completed"]
