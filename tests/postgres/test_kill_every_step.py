"""Kill the process before each of its round trips to PostgreSQL, one after the other, and look at the end."""

import asyncio
import signal
import sys
from datetime import date

import pytest

from qlab import Queue
from qlab.postgres import cursor, outbox
from qlab.postgres import idempotency as idem
from tests.postgres.conftest import Pool, nothing_left_behind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DIE = """
import asyncio, os, signal, sys
from datetime import UTC, date, datetime
import psycopg
from qlab import Queue
from qlab.postgres import idempotency as idem
from qlab.postgres.advisory import run_exclusive
from qlab.postgres.cursor import run_rollup
from qlab.postgres.relay import Relay
left, wait = int(sys.argv[2]), psycopg.AsyncConnection.wait
async def dying(self, *args, **kwargs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return await wait(self, *args, **kwargs)
async def main():
    conn = await psycopg.AsyncConnection.connect(sys.argv[1])
    psycopg.AsyncConnection.wait = dying
    await work(conn)
    psycopg.AsyncConnection.wait = wait
    await conn.close()
"""
RELAY = """
async def work(conn):
    async with Queue("q") as queue:
        async def publish(message):
            await queue.add(message.topic, message.payload, job_id=message.job_id)
        while (await Relay(conn, publish, batch=3).run_once()).size:
            pass
"""
ROLLUP = """
async def work(conn):
    async def roll_up(conn, day):
        sql = "INSERT INTO daily VALUES (%s, 1) ON CONFLICT (day) DO UPDATE SET n = 1"
        await conn.execute(sql, [day.date])
    await run_rollup(conn, "daily", roll_up, zone="UTC", start=date(2026, 10, 2),
                     now=datetime(2026, 10, 5, 3, tzinfo=UTC))
"""
EFFECT = """
async def work(conn):
    claim = await idem.claim(conn, "k", lock_seconds=0.05)
    if isinstance(claim, idem.Claim):
        async with conn.transaction():
            await conn.execute("INSERT INTO effect VALUES (1)")
            await idem.done(conn, claim, "paid")
"""
EXCLUSIVE = """
async def work(conn):
    async def task(conn):
        await conn.execute("INSERT INTO effect VALUES (1)")
    await run_exclusive(conn, "job", task, wait=30)
"""


async def kill_at_every_step(dsn: str, work: str) -> int:
    """Start the process again and again, killed one round trip later each time, until it ends by itself."""
    for step in range(200):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DIE + work + "asyncio.run(main())", dsn, str(step), stderr=-1
        )
        _, errors = await child.communicate()
        if child.returncode == 0:
            return step
        busy = b"KeyBusy" in errors  # the lock of the one before has not run out
        assert child.returncode == -signal.SIGKILL or busy, errors.decode()
    raise AssertionError("it never ended by itself")


async def one(pool: Pool, sql: str) -> object:
    async with pool.connection() as conn:
        return await (await conn.execute(sql.encode())).fetchone()


async def until_quiet(pool: Pool) -> None:
    """The server notices the last death by itself, a moment later."""
    async with asyncio.timeout(60):
        while await one(
            pool,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL "
            "AND pid <> pg_backend_pid() LIMIT 1",
        ):
            await asyncio.sleep(0.02)
    await nothing_left_behind(pool)


async def test_relay(outbox_pool: Pool, pg_dsn: str, redis_url: str, prefix: str, monkeypatch) -> None:
    monkeypatch.setenv("QLAB_PREFIX", prefix)
    async with outbox_pool.connection() as conn:
        for n in range(5):
            await outbox.write(conn, "t", n)
    assert await kill_at_every_step(pg_dsn, RELAY) > 5
    async with Queue("q", redis_url, prefix=prefix) as queue:
        async with asyncio.timeout(60):  # rows that a dead relay still holds are skipped, not waited for
            while (await queue.get_job_counts("waiting"))["waiting"] < 5:
                await kill_at_every_step(pg_dsn, RELAY)
        assert (await queue.get_job_counts("waiting"))["waiting"] == 5
    assert await outbox.lag(outbox_pool) == outbox.Lag(0, 0, 0.0)
    await until_quiet(outbox_pool)


async def test_rollup(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await cursor.install(conn)
        await conn.execute("CREATE TABLE daily (day date PRIMARY KEY, n bigint)")
    assert await kill_at_every_step(pg_dsn, ROLLUP) > 5
    async with asyncio.timeout(60):
        while await one(pool, "SELECT last_day FROM day_cursor") != (date(2026, 10, 4),):
            await kill_at_every_step(pg_dsn, ROLLUP)
    assert await one(pool, "SELECT count(*), sum(n), min(day) FROM daily") == (3, 3, date(2026, 10, 2))
    await until_quiet(pool)


async def test_idempotent_effect_in_the_same_database(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE effect (n int)")
    assert await kill_at_every_step(pg_dsn, EFFECT) > 5
    assert await one(pool, "SELECT count(*) FROM effect") == (1,)
    assert await idem.claim(pool, "k", lock_seconds=1) == idem.Done("k", "paid")
    await until_quiet(pool)


async def test_exclusive(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE effect (n int)")
    assert await kill_at_every_step(pg_dsn, EXCLUSIVE) > 3
    # The last one ran to its end; the one killed before COMMIT was answered may have committed too.
    assert await one(pool, "SELECT count(*) BETWEEN 1 AND 2 FROM effect") == (True,)
    await until_quiet(pool)
