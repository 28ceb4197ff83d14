"""What may be deleted, what was left behind, and a holder that wakes up too late (H23 b)."""

import asyncio
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from qlab.postgres import idempotency as idem
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.idempotency import Claim, Done, KeyBusy
from tests.postgres.conftest import Pool, nothing_left_behind

NOON = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
STOPPED = """
import asyncio, sys
from psycopg import AsyncConnection
from qlab.postgres import idempotency as idem
async def main():
    conn = await AsyncConnection.connect(sys.argv[1])
    claim = await idem.claim(conn, "k", lock_seconds=0.5)
    print("claimed", flush=True)
    sys.stdin.readline()                             # stopped here, for longer than the lock holds
    try:
        async with conn.transaction():
            await conn.execute("INSERT INTO effect VALUES ('A')")
            await idem.done(conn, claim, "A")
    except idem.ClaimLost as error:
        print(error, flush=True)
asyncio.run(main())
"""


async def make_done(pool: Pool, key: str, at: datetime) -> None:
    claim = await idem.claim(pool, key, lock_seconds=60, now=at)
    assert isinstance(claim, Claim)
    await idem.done(pool, claim, key, now=at)


async def keys(pool: Pool) -> set[str]:
    async with pool.connection() as conn:
        return {key for (key,) in await (await conn.execute("SELECT key FROM idempotency_key")).fetchall()}


async def test_h23_b_a_stopped_holder_wakes_up_too_late(pool: Pool, pg_dsn: str) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE effect (by text)")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STOPPED, pg_dsn, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"claimed\n"
    child.send_signal(signal.SIGSTOP)
    claim = await take_over(pool)
    async with pool.connection() as conn, conn.transaction():
        await conn.execute("INSERT INTO effect VALUES ('B')")
        await idem.done(conn, claim, "B")
    child.send_signal(signal.SIGCONT)
    out, _ = await child.communicate(b"\n")
    assert out.startswith(b"the claim on key 'k' is lost")
    async with pool.connection() as conn:
        assert await (await conn.execute("SELECT by FROM effect")).fetchall() == [("B",)]
    assert await idem.claim(pool, "k", lock_seconds=1) == Done("k", "B")
    await nothing_left_behind(pool)


async def take_over(pool: Pool) -> Claim:
    async with asyncio.timeout(30):
        while True:
            try:
                claim = await idem.claim(pool, "k", lock_seconds=600)
                break
            except KeyBusy as busy:
                await asyncio.sleep(busy.retry_after or 0.01)
    assert isinstance(claim, Claim)
    return claim


async def test_cleanup_deletes_old_done_keys_and_never_a_pending_one(pool: Pool) -> None:
    await make_done(pool, "old", NOON - 31 * DAY)
    await make_done(pool, "young", NOON - 29 * DAY)
    await idem.claim(pool, "held", lock_seconds=90 * 86400, now=NOON - 60 * DAY)
    await idem.claim(pool, "left", lock_seconds=60, now=NOON - 60 * DAY)
    assert await idem.cleanup(pool, 30 * DAY, now=NOON) == 1
    assert await keys(pool) == {"young", "held", "left"}
    assert await idem.cleanup(pool, 30 * DAY, now=NOON) == 0
    assert await idem.abandoned(pool, DAY, now=NOON) == ["left"]
    assert await idem.abandoned(pool, 60 * DAY, now=NOON) == []
    again = await idem.claim(pool, "left", lock_seconds=60, now=NOON)
    assert isinstance(again, Claim)
    assert await idem.abandoned(pool, timedelta(0), now=NOON) == []


async def test_cleanup_in_small_steps_by_several_at_once(pool: Pool) -> None:
    async with pool.connection() as conn:
        await conn.execute(
            "INSERT INTO idempotency_key "
            "SELECT 'k' || n, 'DONE', now(), gen_random_uuid(), '', '1', now(), now() - interval '31 days' "
            "FROM generate_series(1, 250) n"
        )
    counts = await asyncio.gather(*(idem.cleanup(pool, 30 * DAY, batch=10) for _ in range(3)))
    assert sum(counts) == 250
    assert await keys(pool) == set()


async def test_a_key_that_was_deleted_does_not_stop_a_second_effect(pool: Pool) -> None:
    """Why the keys must be kept longer than any replay."""
    runs: list[int] = []

    async def effect() -> None:
        runs.append(1)

    for keep in (timedelta(days=1), timedelta(0)):
        await idem.run_once(pool, "k", effect, lock_seconds=60)
        await idem.cleanup(pool, keep)
    await idem.run_once(pool, "k", effect, lock_seconds=60)
    assert len(runs) == 2


@pytest.mark.parametrize("bad", [timedelta(seconds=-1), "30 days", None, float("nan")])
async def test_bad_input_is_refused(pool: Pool, bad: Any) -> None:
    with pytest.raises(ValueError, match="keep"):
        await idem.cleanup(pool, bad)
    with pytest.raises(ValueError, match="older_than"):
        await idem.abandoned(pool, bad)
    with pytest.raises(ValueError, match="batch"):
        await idem.cleanup(pool, DAY, batch=0)
    with pytest.raises(ValueError, match="time zone"):
        await idem.cleanup(pool, DAY, now=datetime(2026, 1, 1))  # noqa: DTZ001


async def test_connections_that_cannot_work_say_so(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        for step in (idem.cleanup(conn, DAY), idem.abandoned(conn, DAY)):
            with pytest.raises(NotInstalled, match="install"):
                await step
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("SELECT 1 / 0")
        for step in (idem.cleanup(conn, DAY), idem.abandoned(conn, DAY)):
            with pytest.raises(ConnectionUnusable, match="roll it back"):
                await step


async def test_way_b_assigning_is_idempotent_but_needs_a_version_to_be_safe_in_any_order(pool: Pool) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE account (id int, state text, version int)")
        await conn.execute("INSERT INTO account VALUES (1, 'NEW', 0), (2, 'NEW', 0)")

        async def assign(id: int, state: str, version: int, *, guarded: bool) -> int:
            guard = "AND version < %(version)s" if guarded else ""
            sql = f"UPDATE account SET state = %(state)s, version = %(version)s WHERE id = %(id)s {guard}"
            values = {"id": id, "state": state, "version": version}
            return (await conn.execute(sql.encode(), values)).rowcount

        for id, guarded in ((1, False), (2, True)):
            for _ in range(10):
                await assign(id, "ACTIVE", 1, guarded=guarded)
            await assign(id, "BANNED", 2, guarded=guarded)
            await assign(id, "ACTIVE", 1, guarded=guarded)  # a late second run of the first job
        found = await (await conn.execute("SELECT state FROM account ORDER BY id")).fetchall()
    assert found == [("ACTIVE",), ("BANNED",)]
