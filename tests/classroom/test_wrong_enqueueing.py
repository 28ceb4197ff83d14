"""The two wrong ways of adding a job beside a transaction really fail as their names say."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from qlab import Queue, Worker
from qlab.classroom.wrong import enqueueing

ORDER = {"id": "o-7", "amount": 100}
Conn = psycopg.AsyncConnection[Any]


class Died(Exception):
    """Stands for the end of the process at one point."""


class DiesBefore:
    """A queue whose producer dies before the job is sent."""

    async def add(self, _name: str, _data: Any) -> None:
        raise Died


class DiesAfter:
    """A queue whose producer dies once the job is there."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def add(self, name: str, data: Any) -> None:
        await self._queue.add(name, data)
        raise Died


class Slow:
    """A queue that keeps its producer waiting until the job has been run, as a fast worker would."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def add(self, name: str, data: Any) -> None:
        job = await self._queue.add(name, data)
        await job.wait_until_finished(timeout=20)


@pytest.fixture
async def conn(pg_dsn: str) -> AsyncIterator[Conn]:
    async with await psycopg.AsyncConnection.connect(pg_dsn) as opened:
        await enqueueing.create_tables(opened)
        await enqueueing.create_tables(opened)
        yield opened


@pytest.fixture
async def queue(redis_url: str, prefix: str) -> AsyncIterator[Queue]:
    async with Queue("mails", redis_url, prefix=prefix) as opened:
        yield opened


async def left(conn: Conn, queue: Queue) -> dict[str, int]:
    row = await (await conn.execute("SELECT count(*) FROM orders")).fetchone()
    await conn.rollback()
    assert row is not None
    return {"orders": row[0], "jobs": (await queue.get_job_counts("waiting"))["waiting"]}


@pytest.mark.parametrize("add", [enqueueing.add_inside, enqueueing.add_after])
async def test_without_a_failure_both_look_right(conn: Conn, queue: Queue, add: Any) -> None:
    await add(ORDER, conn, queue)
    assert await left(conn, queue) == {"orders": 1, "jobs": 1}


async def test_add_inside_and_a_rollback_leave_a_ghost_job(conn: Conn, queue: Queue) -> None:
    with pytest.raises(Died):
        await enqueueing.add_inside(ORDER, conn, DiesAfter(queue))
    assert await left(conn, queue) == {"orders": 0, "jobs": 1}


async def test_add_inside_lets_a_worker_run_before_the_order_is_there(
    conn: Conn, queue: Queue, pg_dsn: str, redis_url: str, prefix: str
) -> None:
    found: list[int] = []

    async def handle(job: Any) -> None:
        async with await psycopg.AsyncConnection.connect(pg_dsn) as other:
            rows = await other.execute("SELECT 1 FROM orders WHERE id = %s", (job.data["order"],))
            found.append(len(await rows.fetchall()))

    async with Worker("mails", handle, redis_url, prefix=prefix):
        await enqueueing.add_inside(ORDER, conn, Slow(queue))
    assert found == [0]
    assert await left(conn, queue) == {"orders": 1, "jobs": 0}


async def test_add_inside_cannot_lose_the_job_of_a_committed_order(conn: Conn, queue: Queue) -> None:
    """The other direction, which the chapter ascribes to this code: a failed add takes the order with it."""
    with pytest.raises(Died):
        await enqueueing.add_inside(ORDER, conn, DiesBefore())
    assert await left(conn, queue) == {"orders": 0, "jobs": 0}


async def test_add_after_and_a_crash_leave_an_order_without_a_job(conn: Conn, queue: Queue) -> None:
    with pytest.raises(Died):
        await enqueueing.add_after(ORDER, conn, DiesBefore())
    assert await left(conn, queue) == {"orders": 1, "jobs": 0}
