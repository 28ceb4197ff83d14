"""run_exclusive: one at a time; and why the lock is not one of session level."""

import asyncio
import contextvars
import os
import signal
import sys
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from qlab.postgres import idempotency as idem
from qlab.postgres import outbox
from qlab.postgres.advisory import Exclusive, lock_key, run_exclusive
from qlab.postgres.errors import ConnectionUnusable
from qlab.postgres.relay import Relay
from tests.postgres.conftest import Pool, nothing_left_behind

HOLDER = """
import asyncio, sys
from psycopg import AsyncConnection
from qlab.postgres.advisory import run_exclusive
async def hold(conn):
    print("holding", flush=True)
    await asyncio.sleep(600)
async def main():
    await run_exclusive(await AsyncConnection.connect(sys.argv[1]), "job", hold)
asyncio.run(main())
"""


async def nothing(conn: Any) -> str:
    return "ran"


async def select(pool: Pool, sql: str) -> Any:
    async with pool.connection() as conn:
        return await (await conn.execute(sql.encode())).fetchone()


async def test_three_at_once_one_runs_two_skip_and_later_it_runs_again(pool: Pool) -> None:
    async def task(conn: Any) -> None:
        await asyncio.sleep(0.3)

    outcomes = await asyncio.gather(*(run_exclusive(pool, "job", task) for _ in range(3)))
    assert sorted(outcome.ran for outcome in outcomes) == [False, False, True]
    assert await run_exclusive(pool, "job", nothing) == Exclusive(True, "ran")
    await nothing_left_behind(pool)


async def test_instances_one_after_the_other_all_run_unless_the_tick_has_a_key(pool: Pool) -> None:
    """Mutual exclusion is not once per tick."""
    runs: list[str] = []

    async def task(conn: Any = None) -> None:
        runs.append("run")

    for _ in range(3):
        await run_exclusive(pool, "cleanup", task)
    assert len(runs) == 3
    runs.clear()
    for _ in range(3):
        await idem.run_once(pool, "cleanup:2026-10-01T03:00Z", task, lock_seconds=60)
    assert len(runs) == 1


async def test_free_after_commit_rollback_and_a_lost_connection(pool: Pool, pg_dsn: str) -> None:
    async def fails(conn: Any) -> None:
        await conn.execute("CREATE TABLE made (id int)")
        raise RuntimeError("no")

    async def loses(conn: Any) -> None:
        async with await AsyncConnection.connect(pg_dsn, autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s)", [conn.info.backend_pid])
        await conn.execute("SELECT 1")

    assert (await run_exclusive(pool, "job", nothing)).ran
    with pytest.raises(RuntimeError, match="no"):
        await run_exclusive(pool, "job", fails)
    assert (await run_exclusive(pool, "job", nothing)).ran
    async with pool.connection() as conn:
        assert await (await conn.execute("SELECT to_regclass('made')")).fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError):
        await run_exclusive(pool, "job", loses)
    assert (await run_exclusive(pool, "job", nothing, wait=10)).ran
    await nothing_left_behind(pool)


async def test_free_when_the_holder_is_killed(pool: Pool, pg_dsn: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, pg_dsn, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"holding\n"
    assert not (await run_exclusive(pool, "job", nothing)).ran
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    assert (await run_exclusive(pool, "job", nothing, wait=30)).ran


async def test_wait_ends_and_leaves_the_limits_as_they_were(pool: Pool) -> None:
    async def limits(conn: Any) -> Any:
        return await (await conn.execute("SHOW lock_timeout")).fetchone()

    async def holds(conn: Any) -> Exclusive:
        other = asyncio.create_task(waits(), context=outer)
        return await other

    async def waits() -> Exclusive:
        return await run_exclusive(pool, "job", nothing, wait=0.05)

    outer = contextvars.copy_context()
    held = await run_exclusive(pool, "job", holds)
    assert held == Exclusive(True, Exclusive(False))
    assert await run_exclusive(pool, "job", limits, wait=5) == Exclusive(True, ("0",))


def test_keys_are_64_bits_signed_namespaced_and_never_change() -> None:
    assert lock_key("nightly-cleanup") == lock_key("nightly-cleanup", "qlab")
    keys = {lock_key(f"job-{n}", space) for n in range(1000) for space in ("qlab", "other")}
    assert len(keys) == 2000
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert lock_key("b", "a") != lock_key("ab", "a")
    assert (min(keys) < -(2**62), max(keys) > 2**62) == (True, True)


async def test_session_level_trap_through_a_pool(pg_dsn: str) -> None:
    """Why run_exclusive is of transaction level: unlock on another connection does nothing but warn."""
    notices: list[str] = []

    async def listen(conn: AsyncConnection[Any]) -> None:
        conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))

    async def first(conn: AsyncConnection[Any], sql: str) -> Any:
        return (await (await conn.execute(sql.encode())).fetchone() or [None])[0]

    key = lock_key("job")
    async with AsyncConnectionPool(pg_dsn, min_size=3, max_size=3, configure=listen, open=False) as pool:
        async with pool.connection() as holder:
            assert await first(holder, f"SELECT pg_try_advisory_lock({key})") is True
            async with pool.connection() as other:
                assert await first(other, f"SELECT pg_advisory_unlock({key})") is False
        assert any("you don't own a lock" in notice for notice in notices)
        async with pool.connection() as one, pool.connection() as two, pool.connection() as three:
            tries = [await first(conn, f"SELECT pg_try_advisory_xact_lock({key})") for conn in (one, two)]
            tries.append(await first(three, f"SELECT pg_try_advisory_xact_lock({key})"))
            # its own session may take it again, as if nothing were wrong; the others find it taken
            assert sorted(tries) == [False, False, True]
            await holder.close()
        async with await AsyncConnection.connect(pg_dsn) as conn:
            assert (await run_exclusive(conn, "job", nothing, wait=30)).ran


@pytest.mark.parametrize(("keys", "size"), [(16, 4), (1, 4), (16, 1), (1, 1)])
async def test_h24_holders_that_use_their_connection_never_starve_the_pool(
    pg_dsn: str, keys: int, size: int
) -> None:
    running, most = 0, 0

    async def task(conn: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await outbox.write(conn, "t", 1)
        await idem.done(conn, claims.pop(), 1)
        await asyncio.sleep(0.05)
        running -= 1

    async with AsyncConnectionPool(pg_dsn, min_size=size, max_size=size, timeout=60, open=False) as pool:
        async with pool.connection() as conn:
            await idem.install(conn)
            await outbox.install(conn)
        held = [await idem.claim(pool, f"k-{n}", lock_seconds=600) for n in range(16)]
        claims = [claim for claim in held if isinstance(claim, idem.Claim)]
        sent: list[int] = []

        async def publish(message: outbox.Message) -> None:
            sent.append(message.id)

        async with Relay(pool, publish, listen=False, poll=0.02):
            names = [f"job-{n % keys}" for n in range(16)]
            outcomes = await asyncio.gather(
                *(run_exclusive(pool, name, task, wait=60) for name in names),
                *(outbox.lag(pool) for _ in range(5)),
            )
            async with asyncio.timeout(60):
                while len(sent) < 16:
                    await asyncio.sleep(0.01)
        assert [outcome.ran for outcome in outcomes if isinstance(outcome, Exclusive)] == [True] * 16
        assert most == (1 if keys == 1 else min(most, size))
        await nothing_left_behind(pool)


async def test_h24_a_second_connection_is_refused_at_once_instead_of_hanging(pg_dsn: str) -> None:
    async with AsyncConnectionPool(pg_dsn, min_size=2, max_size=4, timeout=60, open=False) as pool:
        async with pool.connection() as conn:
            await idem.install(conn)

        async def task(conn: Any) -> None:
            await asyncio.gather(idem.claim(pool, "k", lock_seconds=1))

        with pytest.raises(ConnectionUnusable, match="asks for a second one"):
            await run_exclusive(pool, "job", task)
        assert (await run_exclusive(pool, "job", nothing)).ran
        await nothing_left_behind(pool)


async def test_the_work_holds_a_connection_all_the_time(pg_dsn: str) -> None:
    inside, go_on = list[Any](), asyncio.Event()

    async def task(conn: Any) -> None:
        inside.append(conn)
        await go_on.wait()

    async with AsyncConnectionPool(pg_dsn, min_size=2, max_size=2, timeout=60, open=False) as pool:
        holders = [asyncio.create_task(run_exclusive(pool, name, task)) for name in ("a", "b")]
        async with asyncio.timeout(30):
            while len(inside) < 2:
                await asyncio.sleep(0.01)
        with pytest.raises(PoolTimeout):
            async with pool.connection(timeout=0.1):
                pass
        go_on.set()
        assert [(await holder).ran for holder in holders] == [True, True]


async def test_cancelled_work_frees_the_lock(pool: Pool) -> None:
    async def task(conn: Any) -> None:
        await conn.execute("SELECT pg_sleep(600)")

    running = asyncio.create_task(run_exclusive(pool, "job", task))
    asleep = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    async with asyncio.timeout(30):  # a cancel that comes before the query has begun is lost
        while not await select(pool, asleep):
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await run_exclusive(pool, "job", nothing, wait=30)).ran


@pytest.mark.parametrize("name", ["", "n" * 256, "a\x00b", "\ud800", 7, None])
async def test_bad_names_are_refused(pool: Pool, name: Any) -> None:
    with pytest.raises(ValueError, match="lock name"):
        await run_exclusive(pool, name, nothing)
    with pytest.raises(ValueError, match="wait"):
        await run_exclusive(pool, "job", nothing, wait=-1)


async def test_connections_that_cannot_work_say_so(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        await conn.execute("SELECT 1")
        with pytest.raises(ConnectionUnusable, match="inside a transaction"):
            await run_exclusive(conn, "job", nothing)
    with pytest.raises(ConnectionUnusable, match="closed"):
        await run_exclusive(conn, "job", nothing)
    with pytest.raises(ConnectionUnusable, match="pool is closed"):
        await run_exclusive(AsyncConnectionPool(pg_dsn, open=False), "job", nothing)
