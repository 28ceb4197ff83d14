"""What happens at the same time is put in order: two explorations see the same, whatever arrives first."""

import asyncio
from typing import Any

import psycopg
import redis.asyncio as redis

from qlab import Queue
from qlab.testing import Actor, Evidence, FaultLab, World, assert_no_failure
from qlab.testing.explorer.resp import RedisFront


async def once(stores: Evidence) -> str:
    return "once" if await stores.redis.keys("qlab:{mail}:job:*") else "lost"


async def add(world: World) -> None:
    async with Queue("mail", world.redis_url, clock=world.time) as queue:
        await queue.add("welcome", {"user": 7}, job_id="one")


async def test_two_workers_that_bring_the_same_script(lab: FaultLab) -> None:
    """Both meet NOSCRIPT, or the second finds the script loaded: for each it is one effect all the same."""
    actors = [Actor("A", add), Actor("B", add)]
    reports = [await assert_no_failure(lab, actors, once, faults=1, switches=1) for _ in range(3)]
    assert len({report.digest for report in reports}) == 1
    assert reports[0].schedules > 20


async def six_at_once(world: World) -> None:
    async def into_redis(number: int) -> None:
        async with redis.Redis.from_url(world.redis_url) as client:
            await client.set(f"k{number}", 1)

    async def into_postgres(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(world.pg_dsn, autocommit=True) as connection:
            await connection.execute(f"INSERT INTO six VALUES ({number}) ON CONFLICT DO NOTHING".encode())

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(into_redis(number))
            group.create_task(into_postgres(number))


async def all_six(stores: Evidence) -> str:
    rows = (await stores.rows("SELECT count(*) FROM six"))[0][0]
    return "once" if rows + len(await stores.redis.keys("k*")) == 6 else "lost"


async def test_tasks_of_one_worker_on_six_connections(lab: FaultLab) -> None:
    async def create(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("CREATE TABLE IF NOT EXISTS six (n integer PRIMARY KEY)")

    await lab.install(create)
    reports = [await assert_no_failure(lab, [Actor("A", six_at_once)], all_six, faults=1) for _ in range(3)]
    assert len({report.digest for report in reports}) == 1
    assert [row.effect for row in reports[0].rows] == sorted(row.effect for row in reports[0].rows)


def test_a_script_is_loaded_before_the_effect_that_brings_it() -> None:
    texts: list[bytes] = []
    front = RedisFront({}, set(), texts.append)
    words = (b"EVAL", b"return 1", b"0")
    raw = b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    assert [piece.label is None for piece in front.feed(raw + raw)] == [False, False]
    assert texts == [b"return 1"]
