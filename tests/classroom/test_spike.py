"""A spike of requests: counted as they were answered, watched while it lasts, drawn as it was."""

import asyncio

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from qlab import Queue, Worker
from qlab.classroom.small_server import close_all, small_postgres
from qlab.classroom.spike import Answer, Spike, p95, picture, until_empty, watch


@pytest.fixture
def few():
    yield small_postgres(connections=8)
    close_all()


def test_p95_leaves_out_the_slowest_of_twenty():
    answers = [Answer(202, seconds / 1000) for seconds in range(1, 21)]
    assert p95(answers) == 0.019
    assert p95(answers[:1]) == 0.001


def test_answers_are_counted_by_what_they_say():
    run = Spike()
    run.answers = [Answer(201, 0.1), Answer(202, 0.1), Answer(500, 0.1), Answer(0, 1.0)]
    assert run.counts == {"requests": 4, "accepted": 2, "failed": 2, "most_connections": 0}


async def test_the_watch_sees_connections_and_depth_but_not_itself(few, redis_url, prefix):
    async with Queue("q", redis_url, prefix=prefix) as queue:
        async with watch(few.url, queue) as run:
            await queue.add("a")
            async with await psycopg.AsyncConnection.connect(few.url) as connection:
                await connection.execute("SELECT 1")
                async with asyncio.timeout(10):
                    while 1 not in run.connections or 1 not in run.depth:
                        await asyncio.sleep(0.01)
            await queue.drain()
        assert set(run.connections) == {0, 1}
        assert run.depth[-1] == 0
        assert run.draining() == run.depth
        assert run.times == sorted(run.times)


async def spike(few, queue, count):
    """Put ``count`` jobs in and let them share a pool of five connections."""
    pool = AsyncConnectionPool(few.url, min_size=0, max_size=5, open=False)

    async def handle(job):
        async with pool.connection() as connection:
            await connection.execute("SELECT 1")

    async with pool, watch(few.url, queue) as run:
        await queue.add_bulk([("reserve", {})] * count)
        run.answers = [Answer(202, 0.0)] * count
        async with Worker(
            queue.name, handle, queue.connection.client, prefix=queue.keys.prefix, concurrency=5
        ):
            await until_empty(queue, within=110)
    return run


async def check_spike(few, redis_url, prefix, count):
    async with Queue("q", redis_url, prefix=prefix) as queue:
        run = await spike(few, queue, count)
        assert await queue.get_job_counts("failed", "waiting") == {"failed": 0, "waiting": 0}
    assert 1 <= run.counts["most_connections"] <= 5
    falling = run.draining()
    assert run.counts["accepted"] == max(run.depth) == count
    assert falling == sorted(falling, reverse=True)
    drawn = picture("Cơn dồn", {"qua hàng đợi": run}, ceiling=7)
    assert drawn.summary["việc chưa xong"]["qua hàng đợi"]["highest"] == count


async def test_s1_7_connections_never_exceed_the_workers_and_the_depth_only_falls(few, redis_url, prefix):
    await check_spike(few, redis_url, prefix, 100)


@pytest.mark.slow
async def test_s1_7_with_the_chapters_ten_thousand(few, redis_url, prefix):
    await check_spike(few, redis_url, prefix, 10_000)
