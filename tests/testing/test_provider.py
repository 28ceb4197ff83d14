"""The payment provider stub keeps the rules that it claims, in process."""

import asyncio

import pytest

from qlab.testing import Charge, ManualClock, PaymentProvider, ProviderError
from qlab.testing.provider import Call


async def refused(provider: PaymentProvider, *args: object, **kwargs: object) -> int:
    with pytest.raises(ProviderError) as caught:
        await provider.charge(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.status


async def test_same_key_is_one_charge() -> None:
    provider = PaymentProvider()
    first = await provider.charge("o-1", 100, key="charge:o-1")
    again = await provider.charge(order="o-1", amount=100, key="charge:o-1")
    assert first == again
    assert (len(provider.charges), provider.calls) == (1, 2)


async def test_without_a_key_each_call_is_a_charge() -> None:
    provider = PaymentProvider()
    await provider.charge("o-1", 100)
    await provider.charge("o-1", 100)
    assert len(provider.charges) == 2


async def test_without_dedupe_the_key_changes_nothing() -> None:
    provider = PaymentProvider(dedupe=False)
    await provider.charge("o-1", 100, key="k")
    await provider.charge("o-1", 100, key="k")
    assert [c.key for c in provider.charges] == ["k", "k"]


@pytest.mark.parametrize(("order", "amount"), [("o-2", 100), ("o-1", 101)])
async def test_same_key_with_other_parameters_is_refused(order: str, amount: int) -> None:
    provider = PaymentProvider()
    await provider.charge("o-1", 100, key="k")
    assert await refused(provider, order, amount, key="k") == 400
    assert len(provider.charges) == 1


async def test_key_is_forgotten_after_24_hours_and_not_before() -> None:
    clock = ManualClock()
    provider = PaymentProvider(clock=clock)
    await provider.charge("o-1", 100, key="k")
    clock.advance(24 * 3600 - 1)
    await provider.charge("o-1", 100, key="k")
    assert len(provider.charges) == 1
    clock.advance(1)
    await provider.charge("o-1", 100, key="k")
    assert len(provider.charges) == 2


async def test_key_in_flight_is_409_and_the_409_is_not_stored() -> None:
    seen: list[Charge] = []
    provider = PaymentProvider(delay=0.05)
    provider.on_charge.append(seen.append)
    first = asyncio.create_task(provider.charge("o-1", 100, key="k"))
    await asyncio.sleep(0)
    assert await refused(provider, "o-1", 100, key="k") == 409
    charge = await first
    assert await provider.charge("o-1", 100, key="k") == charge
    assert seen == provider.charges == [charge]


async def test_failure_before_the_effect_charges_nothing_and_frees_the_key() -> None:
    provider = PaymentProvider()
    provider.fail_next(2)
    assert [await refused(provider, "o-1", 100, key="k") for _ in range(2)] == [503, 503]
    assert provider.charges == []
    assert (await provider.charge("o-1", 100, key="k")).id == "ch_1"


async def test_failure_after_the_effect_is_found_again_by_key_only() -> None:
    provider = PaymentProvider()
    provider.fail_next(1, after=True)
    assert await refused(provider, "o-1", 100, key="k") == 503
    assert len(provider.charges) == 1
    assert await provider.charge("o-1", 100, key="k") == provider.charges[0]
    provider.fail_next(1, after=True)
    assert await refused(provider, "o-2", 100) == 503
    await provider.charge("o-2", 100)
    assert [c.order for c in provider.charges] == ["o-1", "o-2", "o-2"]


async def test_stored_failure_comes_back_for_its_key() -> None:
    provider = PaymentProvider()
    provider.fail_next(1, status=500, stored=True)
    assert [await refused(provider, "o-1", 100, key="k") for _ in range(3)] == [500, 500, 500]
    assert (await provider.charge("o-1", 100, key="k2")).order == "o-1"


async def test_cancelled_charge_leaves_its_key_free() -> None:
    provider = PaymentProvider(delay=60)
    task = asyncio.create_task(provider.charge("o-1", 100, key="k"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.delay = 0
    await provider.charge("o-1", 100, key="k")
    assert len(provider.charges) == 1


async def test_hooks_see_the_request_on_its_way_and_the_reply_on_its_way_back() -> None:
    provider = PaymentProvider()
    seen: list[tuple[str, int | None, int]] = []

    async def note(call: Call) -> None:
        seen.append((call.order, call.status, len(provider.charges)))

    provider.on_request = provider.on_reply = note
    await provider.charge("o-1", 100)
    assert seen == [("o-1", None, 0), ("o-1", 201, 1)]


@pytest.mark.parametrize(
    ("order", "amount", "key"),
    [
        ("", 100, "k"),
        (7, 100, "k"),
        ("o", 0, "k"),
        ("o", 1.5, "k"),
        ("o", True, "k"),
        ("o", 1, ""),
        ("o", 1, "k" * 256),
    ],
)
async def test_bad_requests_are_refused(order: object, amount: object, key: object) -> None:
    provider = PaymentProvider()
    assert await refused(provider, order, amount, key=key) == 400
    assert provider.charges == []


def test_transient_statuses() -> None:
    transient = [
        s for s in (400, 402, 404, 408, 409, 423, 425, 429, 500, 503) if ProviderError(s, "").transient
    ]
    assert transient == [408, 409, 423, 425, 429, 500, 503]


def test_fail_next_refuses_nonsense() -> None:
    provider = PaymentProvider()
    for bad in ({"n": 0}, {"status": 200}, {"after": True, "stored": True}):
        with pytest.raises(ValueError, match="pass"):
            provider.fail_next(**bad)  # type: ignore[arg-type]
