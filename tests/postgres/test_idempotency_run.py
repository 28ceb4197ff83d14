"""run_once: one effect, whatever goes wrong; and clear errors for what cannot work."""

import asyncio
import os
import signal
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from qlab.errors import PayloadError
from qlab.postgres import idempotency as idem
from qlab.postgres.idempotency import Claim, ConnectionUnusable, KeyBusy, NotInstalled, Outcome, run_once
from qlab.testing import PaymentProvider, ProviderError
from tests.postgres.conftest import Pool

HOLDER = """
import asyncio, sys
from psycopg import AsyncConnection
from qlab.postgres import idempotency as idem
async def main():
    conn = await AsyncConnection.connect(sys.argv[1])
    await idem.claim(conn, "k", lock_seconds=float(sys.argv[2]))
    print("claimed", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def charge(pool: Any, provider: PaymentProvider, order: str, seconds: float = 60) -> Outcome:
    async def effect() -> dict[str, str]:
        return {"id": (await provider.charge(order, 100, key=f"charge:{order}")).id}

    return await run_once(pool, f"charge:{order}", effect, lock_seconds=seconds, request={"order": order})


async def test_twice_is_one_effect_and_the_same_result(pool: Pool) -> None:
    provider = PaymentProvider()
    first, second = await charge(pool, provider, "o"), await charge(pool, provider, "o")
    assert (first.ran, second.ran, provider.calls) == (True, False, 1)
    assert first.result == second.result == {"id": "ch_1"}


async def test_h23_d_error_releases_and_a_retry_runs_at_once(pool: Pool) -> None:
    provider = PaymentProvider()
    provider.fail_next(1)
    with pytest.raises(ProviderError, match="503"):
        await charge(pool, provider, "o", seconds=3600)
    assert (await charge(pool, provider, "o")).ran
    assert len(provider.charges) == 1


async def test_cancelled_effect_releases(pool: Pool) -> None:
    provider = PaymentProvider(delay=600)
    task = asyncio.create_task(charge(pool, provider, "o", seconds=3600))
    async with asyncio.timeout(10):
        while provider.calls == 0:
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.delay = 0
    assert (await charge(pool, provider, "o")).ran


async def test_twenty_at_once_is_one_charge(pool: Pool) -> None:
    provider = PaymentProvider(delay=0.1)
    results = await asyncio.gather(*(charge(pool, provider, "o") for _ in range(20)), return_exceptions=True)
    ran = sum(isinstance(r, Outcome) and r.ran for r in results)
    skipped = sum(isinstance(r, Outcome) and not r.ran for r in results)
    busy = sum(isinstance(r, KeyBusy) for r in results)
    assert (ran, ran + skipped + busy, provider.calls) == (1, 20, 1)


async def test_a_pool_of_one_is_enough(pool: Pool, pg_dsn: str) -> None:
    provider = PaymentProvider(delay=0.05)
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=1, timeout=5, open=False) as single:
        orders = [f"o-{n}" for n in range(5)]
        outcomes = await asyncio.gather(*(charge(single, provider, order) for order in orders))
    assert [o.ran for o in outcomes] == [True] * 5


async def test_h23_a_killed_holder_is_busy_then_taken_over(pool: Pool, pg_dsn: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, pg_dsn, "1.0", stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"claimed\n"
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    provider = PaymentProvider()
    with pytest.raises(KeyBusy) as caught:
        await charge_as_holder(pool, provider)
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 1
    async with asyncio.timeout(10):
        while True:
            try:
                outcome = await charge_as_holder(pool, provider)
                break
            except KeyBusy as busy:
                await asyncio.sleep(busy.retry_after or 0.01)
    assert (outcome.ran, len(provider.charges)) == (True, 1)


async def charge_as_holder(pool: Pool, provider: PaymentProvider) -> Outcome:
    async def effect() -> str:
        return (await provider.charge("o", 100, key="k")).id

    return await run_once(pool, "k", effect, lock_seconds=60)


async def test_a_result_that_is_not_json_releases_the_key(pool: Pool) -> None:
    async def effect() -> object:
        return {1, 2}

    with pytest.raises(PayloadError):
        await run_once(pool, "k", effect, lock_seconds=3600)
    assert isinstance(await idem.claim(pool, "k", lock_seconds=1), Claim)


@pytest.mark.parametrize("key", ["", "k" * 256, "a\x00b", "a\nb", "\ud800", 7, None])
async def test_bad_keys_are_refused(pool: Pool, key: Any) -> None:
    with pytest.raises(ValueError, match="idempotency key"):
        await idem.claim(pool, key, lock_seconds=1)


@pytest.mark.parametrize("request_body", [{"a": "x\x00"}, float("nan"), {1: 2}, (1,), object(), "\ud800"])
async def test_bad_requests_are_refused(pool: Pool, request_body: Any) -> None:
    with pytest.raises(ValueError, match="request"):
        await idem.claim(pool, "k", lock_seconds=1, request=request_body)


async def test_naive_time_and_bad_lock_are_refused(pool: Pool) -> None:
    with pytest.raises(ValueError, match="time zone"):
        await idem.claim(pool, "k", lock_seconds=1, now=datetime(2026, 1, 1))  # noqa: DTZ001
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="lock_seconds"):
            await idem.claim(pool, "k", lock_seconds=seconds)


async def test_connections_that_cannot_work_say_so(pool: Pool, pg_dsn: str) -> None:
    conn = await AsyncConnection.connect(pg_dsn)
    await conn.execute("SELECT 1")
    with pytest.raises(ConnectionUnusable, match="inside a transaction"):
        await idem.claim(conn, "k", lock_seconds=1)
    await conn.rollback()
    claim = await idem.claim(conn, "k", lock_seconds=60)
    assert isinstance(claim, Claim)
    with pytest.raises(Exception, match="division by zero"):
        await conn.execute("SELECT 1 / 0")
    for step in (idem.claim(conn, "k", lock_seconds=1), idem.done(conn, claim, 1), idem.release(conn, claim)):
        with pytest.raises(ConnectionUnusable, match="roll it back"):
            await step
    await conn.close()
    with pytest.raises(ConnectionUnusable, match="connection is closed"):
        await idem.done(conn, claim, 1)
    closed = AsyncConnectionPool(pg_dsn, open=False)
    with pytest.raises(ConnectionUnusable, match="pool is closed"):
        await idem.claim(closed, "k", lock_seconds=1)


async def test_a_missing_table_says_install(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        with pytest.raises(NotInstalled, match="install"):
            await idem.claim(conn, "k", lock_seconds=1)
        assert conn.info.transaction_status.name == "IDLE"


async def test_an_unreachable_server_keeps_the_effects_own_error(pool: Pool, pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:

        async def effect() -> None:
            await conn.close()
            raise ProviderError(503, "down")

        with pytest.raises(ProviderError) as caught:
            await run_once(conn, "k", effect, lock_seconds=60)
    assert "could not be released" in caught.value.__notes__[0]


async def test_a_plain_function_is_an_effect_too_and_happens_once(pool: Pool) -> None:
    """Awaiting what it returns would fail after it ran, and the retry would run it again."""
    ran: list[int] = []

    def effect() -> int:
        ran.append(1)
        return 5

    for _ in range(2):
        outcome = await run_once(pool, "k", effect, lock_seconds=timedelta(seconds=60))  # type: ignore[arg-type]
        assert outcome.result == 5
    assert ran == [1]


async def test_an_effect_that_was_called_already_is_refused_and_takes_no_key(pool: Pool) -> None:
    async def effect() -> None: ...

    called = effect()
    with pytest.raises(TypeError, match="effect must be a function, not coroutine"):
        await run_once(pool, "k", called, lock_seconds=60)  # type: ignore[arg-type]
    called.close()
    assert isinstance(await idem.claim(pool, "k", lock_seconds=60), Claim)
