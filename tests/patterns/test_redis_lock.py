"""The Redis lock: one winner, nobody opens another's lock, and what it cannot do."""

import asyncio
import signal
import sys

import pytest
from psycopg import AsyncConnection
from redis.asyncio import Redis

from qlab.patterns.redis_lock import Held, RedisLock

HOLDER = """
import asyncio, sys
from psycopg import AsyncConnection
from redis.asyncio import Redis
from qlab.patterns.redis_lock import RedisLock
async def main():
    async with Redis.from_url(sys.argv[1]) as redis, await AsyncConnection.connect(sys.argv[2]) as conn:
        lock = RedisLock(redis, "job", ttl=0.2, prefix=sys.argv[3])
        held = await lock.acquire()
        print("held", held.fence, flush=True)
        sys.stdin.readline()                    # stopped here, for longer than the lock holds
        await conn.execute("UPDATE report SET plain = 'A'")
        late = await conn.execute("UPDATE report SET fenced = 'A', fence = %(f)s WHERE fence <= %(f)s",
                                  {"f": held.fence})
        await conn.commit()
        print(late.rowcount, await lock.release(held), flush=True)
asyncio.run(main())
"""


async def until_free(redis: Redis, lock: RedisLock) -> None:
    async with asyncio.timeout(30):
        while await redis.exists(lock.key):
            await asyncio.sleep(0.01)


async def test_one_winner_of_many(redis: Redis, prefix: str) -> None:
    lock = RedisLock(redis, "job", ttl=60, prefix=prefix)
    found = [held for held in await asyncio.gather(*(lock.acquire() for _ in range(20))) if held]
    assert len(found) == 1
    assert 0 < await redis.pttl(lock.key) <= 60_000
    assert await lock.release(found[0]) is True
    assert await lock.release(found[0]) is False
    again = await lock.acquire()
    assert again is not None
    assert again.fence == found[0].fence + 1
    assert await redis.ttl(lock.fence_key) == -1


async def test_an_old_holder_cannot_open_the_lock_of_the_new_one(redis: Redis, prefix: str) -> None:
    lock = RedisLock(redis, "job", ttl=0.05, prefix=prefix)
    old = await lock.acquire()
    assert old is not None
    await until_free(redis, lock)
    new = await RedisLock(redis, "job", ttl=60, prefix=prefix).acquire()
    assert new is not None
    assert await lock.release(old) is False
    assert await redis.get(lock.key) == new.token


async def test_unsafe_under_a_pause_longer_than_the_ttl_and_what_the_fence_adds(
    redis: Redis, redis_url: str, prefix: str, pg_dsn: str
) -> None:
    lock = RedisLock(redis, "job", ttl=60, prefix=prefix)
    async with await AsyncConnection.connect(pg_dsn, autocommit=True) as conn:
        await conn.execute("CREATE TABLE report (plain text, fenced text, fence bigint)")
        await conn.execute("INSERT INTO report VALUES ('', '', 0)")
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, redis_url, pg_dsn, prefix,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        assert await child.stdout.readline() == b"held 1\n"
        child.send_signal(signal.SIGSTOP)
        await until_free(redis, lock)
        held = await lock.acquire()
        assert held == Held(held.token if held else "", 2)
        await conn.execute("UPDATE report SET plain = 'B', fenced = 'B', fence = 2")
        child.send_signal(signal.SIGCONT)
        out, _ = await child.communicate(b"\n")
        assert out == b"0 False\n"  # the fenced write was refused, B's lock was left alone
        found = await (await conn.execute("SELECT plain, fenced, fence FROM report")).fetchone()
    assert found == ("A", "B", 2)  # without the fence, two holders at once: the late one won
    assert await redis.get(lock.key) == (held.token if held else None)


async def test_bad_options_are_refused(redis: Redis, prefix: str) -> None:
    for name in ("", "a b", "{a}", None):
        with pytest.raises(ValueError, match="lock name"):
            RedisLock(redis, name, ttl=1, prefix=prefix)
    for ttl in (0, -1, "1"):
        with pytest.raises(ValueError, match="ttl"):
            RedisLock(redis, "job", ttl=ttl, prefix=prefix)
