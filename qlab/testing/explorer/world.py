"""What a handler and an invariant are given: addresses, the provider, the clock, the stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from qlab.testing.explorer.gate import Delivery, Effect
from qlab.testing.explorer.rules import DeliveryRules
from qlab.testing.provider import Charge, PaymentProvider, ProviderError

if TYPE_CHECKING:
    import psycopg
    import redis.asyncio

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""When every schedule begins, on the virtual clock."""


@dataclass(frozen=True)
class _Clock:
    _seconds: Callable[[], float]

    def clock(self) -> datetime:
        """The virtual time as an aware datetime."""
        return EPOCH + timedelta(seconds=self._seconds())

    def time(self) -> float:
        """The virtual time in seconds since the epoch, as `Queue(clock=)` takes it."""
        return EPOCH.timestamp() + self._seconds()


@dataclass(frozen=True)
class World(_Clock):
    """For a handler: the servers, each behind this delivery's own proxy."""

    pg_dsn: str
    redis_url: str
    provider: Any
    """Has `charge(order, amount, key)`; raises ProviderError."""
    provider_url: str
    """The same provider over HTTP (TCP), for ProviderClient(url)."""
    provider_socket: str
    """And over HTTP on a Unix socket: ProviderClient("http://provider", uds=path)."""
    rules: DeliveryRules


@dataclass(frozen=True)
class Evidence(_Clock):
    """For an invariant (and for `setup`): the real stores, and open connections with nothing in between."""

    pg_dsn: str
    redis_url: str
    connection: psycopg.AsyncConnection[Any]
    redis: redis.asyncio.Redis
    """Its replies are `str`."""
    provider: PaymentProvider
    gave_up: tuple[str, ...]
    """Actors whose job the queue has given up."""
    acknowledged: tuple[str, ...]
    """Actors whose job was acknowledged."""

    async def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        cursor = await self.connection.execute(query, values)
        found: list[tuple[Any, ...]] = await cursor.fetchall()
        return found


ONLY_CHARGES = "of the provider only charge() (POST /charges) can be explored"


class NoReply(ProviderError):
    """The request or its answer is lost: whether money moved is unknown to the caller."""

    def __init__(self) -> None:
        super().__init__(504, "no answer from the provider")


async def decide(delivery: Delivery, order: Any, amount: Any, key: str | None) -> Charge:
    """One charge as the scheduler wants it. Raises ProviderError; NoReply when the answer must be lost."""
    effect = Effect(f"CHARGE {order} {amount}", f"CHARGE {order}", "provider")
    verdict = await delivery.gate(effect)
    if verdict == "<":
        await _die(delivery)
    if verdict == "!":
        effect.result = "503"
        raise ProviderError(503, "the provider is not available; nothing was charged")
    try:
        charge = await delivery.provider.charge(order, amount, key)
        effect.result = charge.id
    except ProviderError as error:
        effect.result = str(error.status)
        if verdict not in ">?":
            raise
    if verdict == ">":
        await _die(delivery)
    if verdict == "?":
        raise NoReply
    return charge


async def _die(delivery: Delivery) -> NoReturn:
    delivery.crash()
    await asyncio.Event().wait()  # a dead process waits for nothing any more
    raise AssertionError("not reached")


class GatedProvider:
    """The provider in process: the same call as PaymentProvider and ProviderClient have."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def charge(self, order: str, amount: int, key: str | None = None) -> Charge:
        """Take the money once for this key. Raises ProviderError: 503, or 504 when the answer is lost."""
        return await decide(self._delivery, order, amount, key)

    async def find(self, order: str) -> NoReturn:
        """Refused, as over HTTP."""
        self._delivery.refuse(ONLY_CHARGES)
        raise AssertionError("not reached")
