"""Kill the process before each command that it sends to Redis, one after the other, and look at the end."""

import asyncio
import signal
import sys

import pytest
from redis.asyncio import Redis

from qlab import Queue
from qlab.patterns.fair_lists import FairLists
from qlab.patterns.redis_lock import RedisLock
from qlab.patterns.token_bucket import TokenBucket

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DIE = """
import asyncio, os, signal, sys
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from qlab import Queue
from qlab.patterns.fair_lists import FairLists
from qlab.patterns.redis_lock import RedisLock
from qlab.patterns.token_bucket import TokenBucket
url, prefix, left, send = sys.argv[1], sys.argv[2], int(sys.argv[3]), AbstractConnection.send_packed_command
async def dying(self, *args, **kwargs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return await send(self, *args, **kwargs)
AbstractConnection.send_packed_command = dying
async def main():
    async with Redis.from_url(url) as redis:
        await work(redis)
"""
LISTS = """
async def work(redis):
    lists = FairLists(redis, "mail", prefix=prefix)
    async with Queue("mail", url, prefix=prefix) as queue:
        async def publish(entry):
            await queue.add("send", entry.data, job_id=entry.job_id)
        while await lists.dispatch(publish, 2):
            pass
"""
LOCK = """
async def work(redis):
    lock = RedisLock(redis, "job", ttl=0.05, prefix=prefix)
    held = await lock.acquire()
    if held:
        await lock.release(held)
"""
BUCKET = """
async def work(redis):
    bucket = TokenBucket(redis, "mail", capacity=3, rate=0.01, prefix=prefix)
    for _ in range(2):
        await bucket.take("a")
"""


async def kill_at_every_command(url: str, prefix: str, work: str) -> int:
    """Start the process again and again, killed one command later each time, until it ends by itself."""
    for command in range(200):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DIE + work + "asyncio.run(main())", url, prefix, str(command), stderr=-1
        )
        _, errors = await child.communicate()
        if child.returncode == 0:
            return command
        assert child.returncode == -signal.SIGKILL, errors.decode()
    raise AssertionError("it never ended by itself")


async def test_a_dispatcher_of_fair_lists(redis: Redis, redis_url: str, prefix: str) -> None:
    """Each entry is one job of the queue, and nothing is left in a list."""
    lists = FairLists(redis, "mail", prefix=prefix)
    await lists.push("a", ["a0", "a1", "a2"])
    await lists.push("b", ["b0"])
    assert await kill_at_every_command(redis_url, prefix, LISTS) > 5
    async with Queue("mail", redis_url, prefix=prefix) as queue:
        assert (await queue.get_job_counts("waiting"))["waiting"] == 4
        jobs = [await queue.get_job(f"fair-mail-{number}") for number in range(1, 5)]
        assert sorted(job.data for job in jobs if job) == ["a0", "a1", "a2", "b0"]
    assert await lists.length("a") == await lists.length("b") == 0


async def test_a_holder_of_the_redis_lock(redis: Redis, redis_url: str, prefix: str) -> None:
    """A dead holder's lock ends by itself: it is never there without an end."""
    lock = RedisLock(redis, "job", ttl=60, prefix=prefix)
    assert await kill_at_every_command(redis_url, prefix, LOCK) > 2
    async with asyncio.timeout(30):
        while (held := await lock.acquire()) is None:
            assert await redis.pttl(lock.key) != -1
            await asyncio.sleep(0.01)
    assert await lock.release(held) is True


async def test_a_taker_of_tokens(redis: Redis, redis_url: str, prefix: str) -> None:
    """The dead keep what they took and no more: the bucket is empty, whole, and its key has an end."""
    bucket = TokenBucket(redis, "mail", capacity=3, rate=0.01, prefix=prefix)
    assert await kill_at_every_command(redis_url, prefix, BUCKET) > 2
    decision = await bucket.take("a")
    assert (decision.granted, decision.never) == (False, False)
    assert 0 < decision.retry_after <= 100
    assert await redis.pttl(bucket.key("a")) > 0
