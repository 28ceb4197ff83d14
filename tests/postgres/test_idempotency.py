"""Claim, done, release: who may do what, on a real PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from qlab.postgres import idempotency as idem
from qlab.postgres.idempotency import Claim, ClaimLost, Done, KeyBusy, KeyMismatch
from tests.postgres.conftest import Pool

NOON = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)


async def taken(pool: Pool, key: str = "k", *, now: datetime | None = None, seconds: float = 60) -> Claim:
    claim = await idem.claim(pool, key, lock_seconds=seconds, now=now)
    assert isinstance(claim, Claim)
    return claim


async def row(pool: Pool, key: str = "k") -> tuple[Any, ...]:
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT status, lock_token, locked_until, result FROM idempotency_key WHERE key = %s", [key]
        )
        found = await cursor.fetchone()
    assert found is not None
    return found


def test_lock_seconds_is_the_chapter_s_75() -> None:
    assert idem.lock_seconds(15, 2, backoff=5, margin=20) == 75
    assert idem.lock_seconds(15, 0, backoff=5, margin=20) == 35
    assert idem.lock_seconds(80, 2, margin=0) == 240


@pytest.mark.parametrize(
    "bad", [{"timeout": -1}, {"retries": -1}, {"margin": float("nan")}, {"backoff": float("inf")}]
)
def test_lock_seconds_refuses_nonsense(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        idem.lock_seconds(**{"timeout": 15, "retries": 2, **bad})  # type: ignore[arg-type]


async def test_twenty_connections_one_token(pool: Pool) -> None:
    async def attempt() -> str:
        try:
            return type(await idem.claim(pool, "k", lock_seconds=60)).__name__
        except KeyBusy:
            return "busy"

    results = await asyncio.gather(*(attempt() for _ in range(20)))
    assert sorted(results) == ["Claim"] + ["busy"] * 19


async def test_claim_is_committed_before_it_returns(pool: Pool, pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:  # not autocommit, as a service has it
        claim = await idem.claim(conn, "k", lock_seconds=60)
        assert isinstance(claim, Claim)
        assert (await row(pool))[:2] == ("PENDING", claim.token)
        assert conn.info.transaction_status.name == "IDLE"


async def test_busy_says_how_long(pool: Pool) -> None:
    await taken(pool, now=NOON, seconds=60)
    with pytest.raises(KeyBusy, match="try again later") as caught:
        await taken(pool, now=NOON + timedelta(seconds=20))
    assert caught.value.retry_after == 40


async def test_take_over_at_expiry_and_not_before(pool: Pool) -> None:
    old = await taken(pool, now=NOON, seconds=60)
    with pytest.raises(KeyBusy):
        await taken(pool, now=NOON + timedelta(seconds=59.999))
    new = await taken(pool, now=NOON + timedelta(seconds=60))
    assert new.token != old.token
    assert new.locked_until == NOON + timedelta(seconds=120)


async def test_released_key_is_free_in_the_same_instant(pool: Pool) -> None:
    claim = await taken(pool, now=NOON)
    assert await idem.release(pool, claim, now=NOON) is True
    await taken(pool, now=NOON)


async def test_old_token_cannot_release_or_finish(pool: Pool) -> None:
    old = await taken(pool, now=NOON, seconds=1)
    new = await taken(pool, now=NOON + timedelta(seconds=1), seconds=60)
    before = await row(pool)
    assert await idem.release(pool, old) is False
    with pytest.raises(ClaimLost, match="nothing stored"):
        await idem.done(pool, old, {"id": "ch_1"})
    assert await row(pool) == before
    await idem.done(pool, new, {"id": "ch_1"})
    with pytest.raises(ClaimLost):
        await idem.done(pool, new, {"id": "ch_2"})
    assert (await row(pool))[3] == {"id": "ch_1"}
    assert await idem.release(pool, new) is False


RESULTS = [None, True, 0, -0.0, 1.0, 1e22, 1e-300, 2**70, "", "đã trừ 100.000 ₫ 🎉", [], {}]


@pytest.mark.parametrize("result", [*RESULTS, {"a": [1, 1.0, None, {"b": "\\u0000"}]}])
async def test_stored_result_comes_back_with_its_types(pool: Pool, result: object) -> None:
    await idem.done(pool, await taken(pool), result)
    again = await idem.claim(pool, "k", lock_seconds=60)
    assert isinstance(again, Done)
    assert repr(again.result) == repr(result)


async def test_other_request_under_the_same_key_is_refused(pool: Pool) -> None:
    first = await idem.claim(pool, "k", lock_seconds=60, request={"order": "o", "amount": 100}, now=NOON)
    assert isinstance(first, Claim)
    late = NOON + timedelta(hours=1)
    for other in ({"order": "o", "amount": 101}, {"order": "o"}, None, {"order": "o", "amount": "100"}):
        with pytest.raises(KeyMismatch, match="another request"):
            await idem.claim(pool, "k", lock_seconds=60, request=other, now=late)
    await idem.done(pool, first, 1)
    with pytest.raises(KeyMismatch):
        await idem.claim(pool, "k", lock_seconds=60, request={"order": "p"})
    same = await idem.claim(pool, "k", lock_seconds=60, request={"amount": 100, "order": "o"})
    assert same == Done("k", 1)


async def test_done_in_the_callers_transaction_rolls_the_effect_back(pool: Pool) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE effect (id int)")
    old = await taken(pool, now=NOON, seconds=1)
    new = await taken(pool, now=NOON + timedelta(seconds=1))
    for claim, stays in ((old, 0), (new, 1)):
        try:
            async with pool.connection() as conn, conn.transaction():
                await conn.execute("INSERT INTO effect VALUES (1)")
                await idem.done(conn, claim, None)
        except ClaimLost:
            assert claim is old
        async with pool.connection() as conn:
            cursor = await conn.execute("SELECT count(*) FROM effect")
            assert await cursor.fetchone() == (stays,)


async def test_install_twenty_times_at_once(pg_dsn: str) -> None:
    async def once() -> None:
        async with await AsyncConnection.connect(pg_dsn) as conn:
            await idem.install(conn)

    await asyncio.gather(*(once() for _ in range(20)))


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'FAILED'", "idempotency_key_status"),
        ("status = 'DONE'", "idempotency_key_done_has_result"),
        ("result = '1'", "idempotency_key_done_has_result"),
        ("key = ''", "idempotency_key_length"),
    ],
)
async def test_the_table_refuses_states_that_cannot_be(pool: Pool, change: str, constraint: str) -> None:
    await taken(pool)
    async with pool.connection() as conn:
        with pytest.raises(psycopg.errors.CheckViolation) as caught:
            await conn.execute(f"UPDATE idempotency_key SET {change}".encode())
        await conn.rollback()
    assert caught.value.diag.constraint_name == constraint
