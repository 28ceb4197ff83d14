"""Handlers and invariants that the tests of the explorer share. Handlers know nothing of the explorer."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg

from qlab.testing import Actor, DeliveryRules, Evidence, World

ORDER = {"id": "o1", "amount": 100, "job_id": "j1"}
PATIENT = DeliveryRules(backoff=(1.0, 5.0, 31.0))
"""Retries that outlast the lease."""
REQUEST = DeliveryRules(visibility=None, attempts=1)
"""Not a job: a web request, which nobody repeats."""


def connect(world: World, *, autocommit: bool = True) -> Awaitable[psycopg.AsyncConnection[Any]]:
    return psycopg.AsyncConnection.connect(world.pg_dsn, autocommit=autocommit)


def charging(way: Callable[..., Awaitable[Any]], name: str = "A") -> Actor:
    """An actor that charges the order in one of the ways (order, connection, provider)."""

    return Actor(name, partial(charge, way))


async def charge(way: Callable[..., Awaitable[Any]], world: World) -> None:
    async with await connect(world) as connection:
        await way(ORDER, connection, world.provider)


def charged(table: str | None = None) -> Callable[[Evidence], Awaitable[str]]:
    """Once: one charge, and the row of `table` (which has a status) is DONE."""

    async def invariant(evidence: Evidence) -> str:
        charges = len(evidence.provider.charges)
        if charges > 1:
            return "twice"
        if table is not None:
            rows = await evidence.rows(f"SELECT status FROM {table}")
            if rows and rows != [("DONE",)]:
                return "half" if charges and not evidence.gave_up else "stuck"
        if charges == 0:
            return "stuck" if evidence.gave_up else "lost"
        return "once"

    return invariant
