"""Each wrong way of charging fails where its docstring says so, on a real PostgreSQL."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from qlab.classroom.wrong import charging
from qlab.postgres.errors import KeyBusy
from qlab.testing import PaymentProvider, ProviderError

ORDER = {"id": "o-1", "amount": 100, "job_id": "1"}
SKIPPED = {"status": "skipped"}
Connection = AsyncConnection[Any]


@pytest.fixture
async def connections(pg_dsn: str) -> AsyncIterator[list[Connection]]:
    """Two connections, one for each worker."""
    opened = [await AsyncConnection.connect(pg_dsn, autocommit=True) for _ in range(2)]
    await charging.create_tables(opened[0])
    yield opened
    for connection in opened:
        await connection.close()


class Died(BaseException):
    """Stands for the death of the process: no `except Exception` sees it."""


def die_at(provider: PaymentProvider, moment: str) -> None:
    """Let the next caller die before its request arrives, or after the money moved."""

    async def once(_: object) -> None:
        setattr(provider, f"on_{moment}", None)
        raise Died

    setattr(provider, f"on_{moment}", once)


async def value(connection: Connection, sql: str) -> Any:
    row = await (await connection.execute(sql.encode())).fetchone()
    return row and row[0]


async def test_every_way_names_its_mistake():
    names = [name for name in charging.__all__ if name != "create_tables"]
    assert len(names) == 6
    for name in names:
        assert inspect.getdoc(getattr(charging, name)).startswith("Mistake: ")


async def test_processed_job_first_loses_the_charge(connections):
    provider = PaymentProvider()
    provider.fail_next(1, 503)
    with pytest.raises(ProviderError):
        await charging.processed_job_first(ORDER, connections[0], provider)
    assert await charging.processed_job_first(ORDER, connections[0], provider) == SKIPPED
    assert len(provider.charges) == 0


async def test_charge_first_charges_again_after_a_death_before_the_note(connections):
    provider = PaymentProvider(dedupe=False)
    die_at(provider, "reply")
    with pytest.raises(Died):
        await charging.charge_first(ORDER, connections[0], provider)
    await charging.charge_first(ORDER, connections[1], provider)
    assert len(provider.charges) == 2
    assert await charging.charge_first(ORDER, connections[1], provider) == SKIPPED


async def test_charge_first_charges_twice_when_two_look_before_either_writes(connections):
    provider = PaymentProvider(dedupe=False)
    both = asyncio.Barrier(2)

    async def wait_for_the_other(_: object) -> None:
        await both.wait()

    provider.on_request = wait_for_the_other
    async with asyncio.timeout(30):
        await asyncio.gather(*(charging.charge_first(ORDER, each, provider) for each in connections))
    assert len(provider.charges) == 2


async def test_lease_without_release_refuses_every_retry(connections):
    provider = PaymentProvider()
    provider.fail_next(1, 503)
    with pytest.raises(ProviderError):
        await charging.lease_without_release(ORDER, connections[0], provider)
    for _ in range(4):
        with pytest.raises(KeyBusy):
            await charging.lease_without_release(ORDER, connections[0], provider)
    assert len(provider.charges) == 0


async def test_lease_without_token_opens_the_lock_of_the_next_worker(connections):
    """A's lease ends while it waits; B takes over; A's error then ends B's lease, and a third may enter."""
    provider = PaymentProvider()
    asked, answer = asyncio.Event(), asyncio.Event()

    async def hold_then_fail(_: object) -> None:
        asked.set()
        await answer.wait()
        raise ProviderError(503, "no")

    provider.on_request = hold_then_fail
    first = asyncio.create_task(
        charging.lease_without_token(ORDER, connections[0], provider, lock_seconds=0.001)
    )
    async with asyncio.timeout(30):
        await asked.wait()
        provider.on_request = None
        die_at(provider, "request")  # B holds the lease, and is not done
        while True:
            try:
                with pytest.raises(Died):
                    await charging.lease_without_token(ORDER, connections[1], provider)
                break
            except KeyBusy:
                await asyncio.sleep(0.001)
        locked = "SELECT locked_until > clock_timestamp() FROM charge_key"
        assert await value(connections[1], locked) is True
        answer.set()
        with pytest.raises(ProviderError):
            await first
    assert await value(connections[1], locked) is False


async def test_lease_without_token_reopens_what_is_done(connections):
    """A wakes late with an error after B was done: the key is PENDING again, and the next job charges."""
    provider = PaymentProvider(dedupe=False)
    connection = connections[0]

    async def meanwhile(_: object) -> None:
        provider.on_request = None
        await connections[1].execute("UPDATE charge_key SET locked_until = clock_timestamp()")
        await charging.lease_without_token(ORDER, connections[1], provider)
        raise ProviderError(503, "no")

    provider.on_request = meanwhile
    with pytest.raises(ProviderError):
        await charging.lease_without_token(ORDER, connection, provider)
    assert await value(connection, "SELECT status FROM charge_key") == "PENDING"
    await charging.lease_without_token(ORDER, connection, provider)
    assert len(provider.charges) == 2


async def test_job_id_as_key_charges_the_same_order_again_under_another_id(connections):
    provider = PaymentProvider()
    await charging.job_id_as_key(ORDER, connections[0], provider)
    assert await charging.job_id_as_key(ORDER, connections[0], provider) == SKIPPED
    await charging.job_id_as_key(ORDER | {"job_id": "2"}, connections[0], provider)
    assert len(provider.charges) == 2


async def test_increment_counts_runs_instead_of_orders(connections):
    for _ in range(2):
        await charging.increment(ORDER, connections[0], PaymentProvider())
    assert await value(connections[0], "SELECT n FROM order_count") == 2


async def test_a_lease_alone_does_not_stop_a_second_charge(connections):
    """What the leases have in common: death between the charge and DONE, at a provider without keys."""
    provider = PaymentProvider(dedupe=False)
    die_at(provider, "reply")
    with pytest.raises(Died):
        await charging.lease_without_release(ORDER, connections[0], provider, lock_seconds=0.001)
    async with asyncio.timeout(30):
        while len(provider.charges) < 2:
            try:
                await charging.lease_without_release(ORDER, connections[1], provider)
            except KeyBusy:
                await asyncio.sleep(0.001)
    assert await value(connections[1], "SELECT status FROM charge_key") == "DONE"


async def test_a_connection_that_would_hold_a_transaction_open_is_refused(pg_dsn):
    async with await AsyncConnection.connect(pg_dsn) as connection:
        for name in set(charging.__all__) - {"create_tables"}:
            with pytest.raises(ValueError, match="autocommit=True"):
                await getattr(charging, name)(ORDER, connection, PaymentProvider())
