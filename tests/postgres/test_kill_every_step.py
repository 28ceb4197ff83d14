"""Kill the process before each of its round trips to PostgreSQL, one after the other, and look at the end."""

import asyncio
import signal
import sys
from datetime import date
from pathlib import Path

import pytest

from qlab import Queue
from qlab.postgres import cursor, outbox, pg_queue, row_cursor
from qlab.postgres import idempotency as idem
from qlab.testing import PaymentProvider
from tests.postgres.conftest import Pool, nothing_left_behind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DIE = """
import asyncio, os, signal, sys
from datetime import UTC, date, datetime
import psycopg
from psycopg.rows import class_row
from qlab import Queue
from qlab.postgres import idempotency as idem, pg_queue
from qlab.postgres.advisory import run_exclusive
from qlab.postgres.cursor import run_rollup
from qlab.postgres.relay import Relay
from qlab.postgres.row_cursor import run_rows
from qlab.testing import ProviderClient
left, wait = int(sys.argv[2]), psycopg.AsyncConnection.wait
def step():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
async def dying(self, *args, **kwargs):
    step()
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
CHARGE = """
async def work(conn):
    async with ProviderClient("http://provider", uds=sys.argv[3]) as provider:
        async def effect():
            step()
            charge = await provider.charge("o-1", 100, key="charge:o-1")
            step()
            return charge.id
        await idem.run_once(conn, "charge:o-1", effect, lock_seconds=0.05)
"""
PG_JOBS = """
async def work(conn):
    await pg_queue.recover(conn, "q", max_stalled_count=1000)
    for job in await pg_queue.take(conn, "q", "w", most=3, lock_duration=0.01):
        async with conn.transaction():
            await conn.execute("INSERT INTO effect VALUES (%s)", [job.data])
            await pg_queue.complete(conn, job)
"""
ROWS = """
from dataclasses import dataclass
@dataclass
class Event:
    xid: str
    id: int
READ = "SELECT written_by::text AS xid, id FROM event WHERE (written_by, id) > (%s::text::xid8, %s) " \\
    "AND written_by < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY written_by, id LIMIT %s"
async def work(conn):
    async def read(conn, after, limit):
        async with conn.cursor(row_factory=class_row(Event)) as found:
            await found.execute(READ, [after.xid, after.id, limit])
            return await found.fetchall()
    async def handle(conn, rows):
        for row in rows:
            await conn.execute("INSERT INTO effect VALUES (%s)", [row.id])
    await run_rows(conn, "r", read, handle, limit=2)
"""


async def kill_at_every_step(dsn: str, work: str, *more: str) -> int:
    """Start the process again and again, killed one round trip later each time, until it ends by itself."""
    for step in range(200):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DIE + work + "asyncio.run(main())", dsn, str(step), *more, stderr=-1
        )
        _, errors = await child.communicate()
        if child.returncode == 0:
            return step
        # The lock of the one before has not run out, or its request is still with the provider.
        busy = b"KeyBusy" in errors or b"409" in errors
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


async def test_idempotent_effect_elsewhere(pool: Pool, pg_dsn: str, tmp_path: Path) -> None:
    """Ways A and C together: killed anywhere, also around the call, the customer pays once."""
    provider, socket = PaymentProvider(), tmp_path / "provider"
    async with provider.serve(uds=str(socket)):
        assert await kill_at_every_step(pg_dsn, CHARGE, str(socket)) > 5
    assert len(provider.charges) == 1
    assert provider.calls > 1  # some were killed after the money had moved
    assert await idem.claim(pool, "charge:o-1", lock_seconds=1) == idem.Done("charge:o-1", "ch_1")
    await until_quiet(pool)


async def test_jobs_of_the_queue_in_postgresql(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await pg_queue.install(conn)
        await conn.execute("CREATE TABLE effect (n int)")
        for n in range(5):
            await pg_queue.enqueue(conn, "q", "n", n)
    assert await kill_at_every_step(pg_dsn, PG_JOBS) > 5
    async with asyncio.timeout(60):
        while (await pg_queue.counts(pool, "q"))["completed"] < 5:
            await kill_at_every_step(pg_dsn, PG_JOBS)
    assert await one(pool, "SELECT count(*), count(DISTINCT n) FROM effect") == (5, 5)
    await until_quiet(pool)


async def test_rows_read_by_a_cursor(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await row_cursor.install(conn)
        await conn.execute("CREATE TABLE effect (n int)")
        await conn.execute(
            "CREATE TABLE event (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "written_by xid8 NOT NULL DEFAULT pg_current_xact_id())"
        )
        await conn.execute("INSERT INTO event SELECT FROM generate_series(1, 5)")
    assert await kill_at_every_step(pg_dsn, ROWS) > 5
    async with asyncio.timeout(60):
        while await one(pool, "SELECT count(*) FROM effect") != (5,):
            await kill_at_every_step(pg_dsn, ROWS)
    assert await one(pool, "SELECT count(DISTINCT n) FROM effect") == (5,)
    await until_quiet(pool)
