"""The trip number: a lost reply neither orphans a batch nor settles twice."""

import asyncio
import json

import pytest

from qlab import Queue, RedisUnavailable, Worker
from tests.redis.queue_state import check_invariants, read_events, until


@pytest.fixture
async def pumped(redis_url, prefix, redis):
    """A queue and a worker of two slots that is driven by hand; its handler returns at once."""

    async def handler(job):
        return job.data

    async with Queue("q", redis_url, prefix=prefix) as queue:
        worker = Worker("q", handler, redis_url, prefix=prefix, concurrency=2, name="A")
        yield queue, worker
        await worker.close(timeout=0)
        await check_invariants(redis, queue.keys)


def lose_next_reply(worker):
    """The next trip reaches the server; its reply does not come back."""
    connection, call = worker.connection, worker.connection.call

    async def lossy(*words, **fixed):
        await call(*words, **fixed)
        connection.call = call
        raise RedisUnavailable("the reply was lost")

    connection.call = lossy


async def test_a_batch_whose_reply_was_lost_is_given_again(pumped, redis):
    queue, worker = pumped
    jobs = await queue.add_bulk([("a", 1), ("a", 2), ("a", 3)])
    worker._prepare()
    lose_next_reply(worker)
    with pytest.raises(RedisUnavailable):
        await worker.step()
    assert await worker.step() == 2
    assert [job.id for job in worker._pump.held.values()] == [job.id for job in jobs[:2]]
    assert [job.data for job in worker._pump.held.values()] == [1, 2]
    assert len(await read_events(redis, queue.keys, "active")) == 2


async def test_a_settlement_whose_reply_was_lost_is_not_refused_as_a_second_one(pumped, redis):
    queue, worker = pumped
    job = await queue.add("a", "x")
    await worker.step()
    await until(lambda: worker._pump._ended)
    lose_next_reply(worker)
    with pytest.raises(RedisUnavailable):
        await worker.step()
    await worker.step()
    assert await job.wait_until_finished(5) == "x"
    names = [event["event"] for event in await read_events(redis, queue.keys)]
    assert names == ["added", "active", "completed"]
    assert not worker._pump.held


async def test_an_old_trip_that_arrives_late_changes_nothing(pumped):
    queue, worker = pumped
    await worker.step()
    await worker.step()
    await queue.add("a")
    late = await worker.connection.call(
        "settle_and_take", token=worker._token, worker="A", lock=1000, trip=1, want=5, count=0
    )
    assert late[1] == ""
    assert not json.loads(late[2])
    assert await queue.get_job_counts("waiting", "active") == {"waiting": 1, "active": 0}


async def test_h03_a_lost_script_cache_is_filled_again(private_redis_url, prefix):
    async def handler(job):
        return job.data

    async with (
        Queue("q", private_redis_url, prefix=prefix) as queue,
        Worker("q", handler, private_redis_url, prefix=prefix),
    ):
        for n in range(50):
            await queue.connection.command("SCRIPT", "FLUSH", "SYNC")
            job = await queue.add("a", n)
            assert await job.wait_until_finished(5) == n


async def test_h04_a_worker_goes_on_after_its_connections_were_cut(private_redis_url, prefix):
    async def handler(job):
        await asyncio.sleep(0.05)
        return job.data

    async with (
        Queue("q", private_redis_url, prefix=prefix) as queue,
        Worker("q", handler, private_redis_url, prefix=prefix, name="A") as worker,
    ):
        await until(lambda: worker.healthy)
        for n in range(10):
            job = await queue.add("a", n)
            await queue.connection.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            assert await job.wait_until_finished(5) == n
            await job.refresh()
            assert (job.claim, job.stalled_counter) == (1, 0)


async def test_an_idle_worker_is_nearly_silent(private_redis_url, prefix):
    """Below one command a second; the blocking wait of 4 s and the trip after it make one in two seconds."""

    async def handler(job):
        return None

    async with (
        Queue("q", private_redis_url, prefix=prefix) as queue,
        Worker("q", handler, private_redis_url, prefix=prefix) as worker,
    ):
        await until(lambda: worker.healthy)
        await until(lambda: _commands(queue, "blpop"))
        before = await _commands(queue, "blpop", "evalsha", "eval")
        await asyncio.sleep(0)
        blocked = await queue.connection.command("CLIENT", "LIST")
        assert "cmd=blpop" in blocked
        assert await _commands(queue, "blpop", "evalsha", "eval") - before <= 1


async def _commands(queue, *names):
    stats = await queue.connection.client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in names)
