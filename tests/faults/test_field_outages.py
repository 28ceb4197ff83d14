"""H03 and H04: the script cache is lost, the server restarts, is gone for a while, or stands still."""

import asyncio
import contextlib
import time
from collections import Counter

import pytest
import redis.asyncio as redis_async

from qlab import Queue, RedisUnavailable, Worker
from tests.redis.queue_state import check_invariants, until

SLACK = 1.5


@contextlib.asynccontextmanager
async def on(server):
    """A queue and a plain client on the server; the invariants are checked when the block ends."""
    async with (
        redis_async.Redis.from_url(server.url, decode_responses=True) as client,
        Queue("q", server.url, prefix="t") as queue,
    ):
        yield queue, client
        await check_invariants(client, queue.keys)


def worker_on(server, handler, **options):
    return Worker("q", handler, server.url, prefix="t", lock_duration=5, stalled_interval=2, **options)


async def keep_adding(queue, entries):
    """Add each for sure: while Redis is away `add` says so at once, and is repeated with the same id."""
    refused = 0
    for name, data, options in entries:
        while True:
            try:
                await queue.add(name, data, **options)
                break
            except RedisUnavailable:
                refused += 1
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.04)
    return refused


async def flush_for_ever(client):
    while True:
        with contextlib.suppress(redis_async.RedisError):
            await client.script_flush("SYNC")
        await asyncio.sleep(0.5)


@pytest.mark.slow
async def test_h03_scripts_are_flushed_all_the_time_and_the_server_restarts(server):
    runs = Counter()

    async def handler(job):
        runs[job.id] += 1
        await asyncio.sleep(0.01)
        return job.data

    entries = [("a", n, {"job_id": f"j{n}"}) for n in range(200)]
    entries.insert(20, ("later", "x", {"job_id": "later", "delay": 3}))
    async with on(server) as (queue, client):
        flushing = asyncio.create_task(flush_for_ever(client))
        async with worker_on(server, handler, name="A") as a, worker_on(server, handler, name="B") as b:
            adding = asyncio.create_task(keep_adding(queue, entries))
            await until(lambda: a.healthy and b.healthy)
            health = set()
            await until(lambda: health.add((a.healthy, b.healthy)) or len(runs) >= 60, limit=30)
            assert health == {(True, True)}  # a flush is nobody's illness
            server.stop()
            server.start()
            refused = await asyncio.wait_for(adding, 60)
            await until(lambda: _completed(queue, 201), limit=30)
            assert a.healthy
            assert b.healthy
        flushing.cancel()
        assert refused <= 20
        assert set(runs.values()) == {1}
        later = await queue.get_job("later")
        assert later.record.processed_at - later.record.added_at >= 3000


async def _completed(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def test_h03_no_exception_reaches_a_caller_when_only_the_script_cache_is_lost(server):
    """Every script that there is, each right after a flush."""

    async def handler(job):
        await job.update_progress(1)
        if job.name == "bad":
            raise ValueError("no")

    async with on(server) as (queue, client), worker_on(server, handler):

        async def after_a_flush(call):
            await client.script_flush("SYNC")
            return await call

        job = await after_a_flush(queue.add("a"))
        await job.wait_until_finished(5)
        bad = await after_a_flush(queue.add("bad"))
        await until(lambda: _state(bad, "failed"))
        await after_a_flush(bad.retry())
        await until(lambda: _state(bad, "failed"))
        later = (await after_a_flush(queue.add_bulk([("a", None, {"delay": 60})])))[0]
        await after_a_flush(later.change_delay(50))
        await after_a_flush(later.promote())
        await later.wait_until_finished(5)
        await after_a_flush(queue.pause())
        await after_a_flush(queue.resume())
        await after_a_flush(queue.rate_limit(0.01))
        assert len(await after_a_flush(queue.clean("completed"))) == 2
        await after_a_flush(bad.remove())


async def _state(job, state):
    return (await job.refresh()).state == state


def stop_and_start(server):
    return server.stop, server.start


def pause_and_resume(server):
    return server.pause, server.resume


@pytest.mark.slow
@pytest.mark.parametrize("away", [0.2, 2, 15])
@pytest.mark.parametrize("how", [stop_and_start, pause_and_resume])
async def test_h04_workers_go_on_after_redis_was_away(server, how, away):
    """One worker is idle, one has a job of 3 s. The lock lasts 5 s: longer than two of the outages."""
    runs, busy = Counter(), asyncio.Event()

    async def handler(job):
        runs[job.id] += 1
        busy.set()
        await asyncio.sleep(job.data)
        return job.data

    leave, return_ = how(server)
    async with on(server) as (queue, _):
        long = await queue.add("long", 3)
        async with worker_on(server, handler, name="busy") as first:
            await asyncio.wait_for(busy.wait(), 5)
            async with worker_on(server, handler, name="idle") as second:
                await until(lambda: second.healthy)
                leave()
                gone = time.monotonic()
                while time.monotonic() - gone < away:
                    await asyncio.sleep(0.05)
                    if time.monotonic() - gone > 5 + SLACK:
                        assert not first.healthy
                        assert not second.healthy
                return_()
                await asyncio.sleep(1)
                new = await queue.add("new", 0)
                await new.wait_until_finished(10)
                await new.refresh()
                assert new.record.processed_at - new.record.added_at <= 5000
                assert await long.wait_until_finished(20) == 3
                await until(lambda: first.healthy and second.healthy)
        assert (await long.refresh()).state == "completed"
        assert runs[long.id] <= (1 if away < 5 else 2)
        assert runs[new.id] == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [stop_and_start, pause_and_resume])
async def test_h04_a_worker_with_no_free_slot_is_seen_to_be_unhealthy_too(server, how):
    """Its only job is long and its lock even longer, so nothing else would ask Redis for a while."""
    busy, release = asyncio.Event(), asyncio.Event()

    async def handler(job):
        busy.set()
        await release.wait()

    leave, return_ = how(server)
    async with on(server) as (queue, _):
        job = await queue.add("long")
        async with Worker("q", handler, server.url, prefix="t", lock_duration=60) as worker:
            await asyncio.wait_for(busy.wait(), 5)
            await until(lambda: worker.healthy)
            leave()
            await until(lambda: not worker.healthy, limit=5 + SLACK)
            return_()
            await until(lambda: worker.healthy, limit=5 + SLACK)
            release.set()
            await job.wait_until_finished(5)
        assert (await job.refresh()).claim == 1
