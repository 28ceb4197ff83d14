"""The queue in PostgreSQL, step by step: lend, end, fail, renew, recover."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from qlab.errors import LockLost
from qlab.postgres import pg_queue
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.pg_queue import PgJob
from tests.postgres.conftest import Pool

NOON = datetime(2026, 10, 9, 12, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
async def jobs(pool: Pool) -> Pool:
    async with pool.connection() as conn:
        await pg_queue.install(conn)
        await conn.execute("CREATE TABLE effect (by text)")
    return pool


async def add(pool: Pool, *data: Any, **options: Any) -> list[int]:
    async with pool.connection() as conn:
        return [await pg_queue.enqueue(conn, "q", "n", one, now=NOON, **options) for one in data]


async def borrow(pool: Pool, worker: str = "w", at: float = 0, most: int = 1) -> list[PgJob]:
    return await pg_queue.take(pool, "q", worker, most=most, lock_duration=10, now=later(at))


async def row(pool: Pool, columns: str) -> tuple[Any, ...] | None:
    async with pool.connection() as conn:
        return await (await conn.execute(f"SELECT {columns} FROM pg_job".encode())).fetchone()


@pytest.mark.parametrize("commits", [True, False])
async def test_a_job_shares_the_fate_of_the_data(jobs: Pool, commits: bool) -> None:
    async with jobs.connection() as conn:
        await conn.execute("INSERT INTO effect VALUES ('order')")
        await pg_queue.enqueue(conn, "q", "n", 1)
        assert (await pg_queue.counts(jobs, "q"))["waiting"] == 0  # nobody sees it before COMMIT
        await (conn.commit() if commits else conn.rollback())
    assert (await pg_queue.counts(jobs, "q"))["waiting"] == int(commits)


async def test_taken_in_order_by_one_each(jobs: Pool) -> None:
    ids = await add(jobs, *range(100))
    taken = await asyncio.gather(*(borrow(jobs, f"w-{n}", most=10) for n in range(12)))
    assert sorted(job.id for batch in taken for job in batch) == ids
    assert all([job.id for job in batch] == sorted(job.id for job in batch) for batch in taken)
    assert {job.data for batch in taken for job in batch} == set(range(100))


async def test_what_is_due_longest_is_first_within_a_batch_too(jobs: Pool) -> None:
    await add(jobs, "put off", delay=5)
    await add(jobs, "now", "then")
    assert [job.data for job in await borrow(jobs, at=6, most=3)] == ["now", "then", "put off"]


async def test_delay_and_other_queues(jobs: Pool) -> None:
    await add(jobs, "late", delay=5)
    assert await borrow(jobs, at=4.999) == []
    assert await pg_queue.take(jobs, "other", "w", now=later(9)) == []
    assert [job.data for job in await borrow(jobs, at=5)] == ["late"]


async def test_attempts_backoff_and_the_end(jobs: Pool) -> None:
    await add(jobs, 1, attempts=2)
    (job,) = await borrow(jobs)
    assert await pg_queue.fail(jobs, job, RuntimeError("no\x00"), delay=3, now=NOON) == "waiting"
    assert await borrow(jobs, at=2.999) == []
    (again,) = await borrow(jobs, at=3)
    assert (again.attempts_made, again.claim) == (1, job.claim + 1)
    assert await pg_queue.fail(jobs, again, RuntimeError("no"), now=NOON) == "failed"
    assert await row(jobs, "attempts_made, failed_reason") == (2, "RuntimeError: no")
    assert await borrow(jobs, at=1e6) == []


async def test_a_lease_that_ran_out_is_given_to_the_next_and_the_old_holder_is_refused(jobs: Pool) -> None:
    (job_id,) = await add(jobs, 1, attempts=3)
    (old,) = await borrow(jobs, "a")
    assert await pg_queue.recover(jobs, "q", now=later(9.999)) == {}
    assert await pg_queue.recover(jobs, "q", now=later(10)) == {job_id: "waiting"}
    (new,) = await borrow(jobs, "b", at=10)
    with pytest.raises(LockLost, match="worker a"):
        await effect_and_complete(jobs, old)
    with pytest.raises(LockLost):
        await pg_queue.fail(jobs, old, RuntimeError("late"))
    assert await pg_queue.release(jobs, old) is False
    assert await pg_queue.renew(jobs, [old, new], now=later(11)) == [old]
    await effect_and_complete(jobs, new)
    with pytest.raises(LockLost):
        await pg_queue.complete(jobs, new, "twice")
    async with jobs.connection() as conn:
        assert await (await conn.execute("SELECT by FROM effect")).fetchall() == [("b",)]
    assert await row(jobs, "state, result, attempts_made, stalled") == ("completed", "b", 1, 1)


async def effect_and_complete(pool: Pool, job: PgJob) -> None:
    async with pool.connection() as conn, conn.transaction():
        await conn.execute("INSERT INTO effect VALUES (%s)", [job.worker])
        await pg_queue.complete(conn, job, job.worker)


async def test_stalled_too_often_fails(jobs: Pool) -> None:
    (job_id,) = await add(jobs, 1)
    states = []
    for n in range(2):
        await borrow(jobs, at=n * 20)
        states.append((await pg_queue.recover(jobs, "q", now=later(n * 20 + 10)))[job_id])
    assert states == ["waiting", "failed"]
    assert await row(jobs, "failed_reason") == ("job stalled more than allowable limit",)


async def test_renew_holds_it_and_release_costs_nothing(jobs: Pool) -> None:
    await add(jobs, 1)
    (job,) = await borrow(jobs)
    assert await pg_queue.renew(jobs, [job], lock_duration=10, now=later(9)) == []
    assert await pg_queue.recover(jobs, "q", now=later(18.9)) == {}
    assert await pg_queue.renew(jobs, []) == []
    assert await pg_queue.release(jobs, job) is True
    assert await row(jobs, "state, attempts_made, stalled") == ("waiting", 0, 0)


async def test_data_arrives_as_it_was_given(jobs: Pool) -> None:
    given = {"id": 130775545883395173, "e": [], "o": {}, "z": -0.0, "f": 1e22, "s": "é😀", "": None}
    await add(jobs, given)
    (job,) = await borrow(jobs)
    assert repr(job.data) == repr(given)


async def test_bad_input_is_refused(jobs: Pool) -> None:
    async with jobs.connection() as conn:
        for bad, says in [
            ({"queue": ""}, "queue name"), ({"name": "a\x00"}, "NUL"), ({"data": float("nan")}, "JSON"),
            ({"data": "x\x00"}, "NUL"), ({"data": "x" * 70_000}, "limit"), ({"attempts": 0}, "attempts"),
            ({"delay": -1}, "delay"), ({"now": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=says):
                await pg_queue.enqueue(conn, **{"queue": "q", "name": "n", **bad})
    with pytest.raises(ValueError, match="lock_duration"):
        await pg_queue.take(jobs, "q", "w", lock_duration=0)
    with pytest.raises(ValueError, match="most"):
        await pg_queue.take(jobs, "q", "w", most=0)


async def test_connections_that_cannot_work_say_so(jobs: Pool, pg_dsn: str) -> None:
    with pytest.raises(TypeError, match="connection of your transaction"):
        await pg_queue.enqueue(jobs, "q", "n")  # type: ignore[arg-type]
    async with await AsyncConnection.connect(pg_dsn, autocommit=True) as conn:
        with pytest.raises(ConnectionUnusable, match="commits by itself"):
            await pg_queue.enqueue(conn, "q", "n")
        await conn.execute("DROP TABLE pg_job")
        for step in (pg_queue.take(conn, "q", "w"), pg_queue.counts(conn, "q"), pg_queue.recover(conn, "q")):
            with pytest.raises(NotInstalled, match="pg_job is missing"):
                await step
    with pytest.raises(ConnectionUnusable, match="closed"):
        await pg_queue.enqueue(conn, "q", "n")


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("state = 'active'", "pg_job_active_has_lease"),
        ("state = 'completed'", "pg_job_ended"),
        ("state = 'gone'", "pg_job_state"),
        ("attempts_made = 2", "pg_job_attempts"),
    ],
)
async def test_the_table_refuses_states_that_cannot_be(jobs: Pool, change: str, constraint: str) -> None:
    await add(jobs, 1)
    async with jobs.connection() as conn:
        with pytest.raises(psycopg.errors.CheckViolation) as caught:
            await conn.execute(f"UPDATE pg_job SET {change}".encode())
        await conn.rollback()
    assert caught.value.diag.constraint_name == constraint
