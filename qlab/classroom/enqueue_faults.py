"""The ways of lesson 05 with every fault at every step: what the explorer finds, ready for a fault table.

    reports = await enqueue_reports(lab.servers)
    fault_table(reports)

A web request is played once: whoever waited for it is gone when it fails. A relay is played until its rows
are through. The queue is a plain Redis key here, so that each step is one command: a list takes whatever it
is given, a sorted set under NX ignores an id that it holds, as a queue does while it still has the job.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from redis.asyncio import Redis

from qlab.classroom.fault_table import FaultTable
from qlab.classroom.texts import load
from qlab.classroom.wrong import enqueueing
from qlab.embedded import Servers
from qlab.postgres import outbox
from qlab.postgres.relay import Relay
from qlab.testing import Actor, DeliveryRules, Evidence, FaultLab, Report, World, explore

ORDER = {"id": "o-1", "amount": 100}
REQUEST = DeliveryRules(visibility=None, attempts=1)
Connection = psycopg.AsyncConnection[Any]
Add = Callable[[dict[str, Any], Connection, Any], Awaitable[None]]


class ListQueue:
    """As much of a queue as the wrong ways need: `add` puts the order into a list."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, _name: str, data: dict[str, Any]) -> None:
        """Add a job for `data["order"]`."""
        await self._redis.rpush("jobs", data["order"])


async def enqueue_reports(servers: Servers) -> dict[str, Report]:
    """A report for each way, all of one fault: a few seconds.

    On a database of its own; on somebody's own PostgreSQL it would need a superuser, so then, as for Redis, a
    private server is started.
    """
    own = servers.pg_dsn if servers.pg_kind == "postgres" else None
    with _without_warnings():
        async with FaultLab(own) as lab:
            return await _explore_all(lab)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """psycopg warns of each connection that breaks while a transaction is undone: here that is the plan."""
    logger = logging.getLogger("psycopg")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _explore_all(lab: FaultLab) -> dict[str, Report]:
    await lab.install(_tables)
    requests = {
        "inside": _request(enqueueing.add_inside),
        "after": _request(enqueueing.add_after),
        "outbox": _request(_write_outbox),
    }
    found = {
        name: await explore(lab, [Actor("A", handler)], _both_or_neither, rules=REQUEST)
        for name, handler in requests.items()
    }
    for name, remembers in {"relay": True, "forgetful": False}.items():
        actor = Actor("R", _relaying(remembers))
        found[name] = await explore(lab, [actor], _each_once, setup=_one_message)
    return found


async def _tables(connection: Connection) -> None:
    await enqueueing.create_tables(connection)
    await outbox.install(connection)


def _request(add: Add) -> Callable[[World], Awaitable[None]]:
    async def handler(world: World) -> None:
        connection = await psycopg.AsyncConnection.connect(world.pg_dsn, autocommit=True)
        async with connection, Redis.from_url(world.redis_url) as redis:
            await add(ORDER, connection, ListQueue(redis))

    return handler


async def _write_outbox(order: dict[str, Any], connection: Connection, _queue: Any) -> None:
    async with connection.transaction():
        row = (order["id"], order["amount"])
        await connection.execute("INSERT INTO orders (id, amount) VALUES (%s, %s)", row)
        await outbox.write(connection, enqueueing.JOB, {"order": order["id"]}, hint=False)


def _relaying(remembers: bool) -> Callable[[World], Awaitable[None]]:
    async def handler(world: World) -> None:
        connection = await psycopg.AsyncConnection.connect(world.pg_dsn, autocommit=True)
        async with connection, Redis.from_url(world.redis_url) as redis:

            async def publish(message: outbox.Message) -> None:
                if remembers:
                    await redis.zadd("ids", {message.job_id: message.id}, nx=True)
                else:
                    await redis.rpush("jobs", message.payload["order"])

            batch = await Relay(connection, publish, listen=False, outage=()).run_once()
            if batch.failed:
                raise LookupError("a message is left: the next pass takes it")

    return handler


async def _one_message(stores: Evidence) -> None:
    async with stores.connection.transaction():
        await outbox.write(stores.connection, enqueueing.JOB, {"order": ORDER["id"]}, hint=False)


async def _both_or_neither(stores: Evidence) -> str:
    """The order and the intent to tell somebody: a job, or a message in the outbox."""
    orders = (await stores.rows("SELECT count(*) FROM orders"))[0][0]
    messages = (await stores.rows("SELECT count(*) FROM outbox"))[0][0]
    told = messages + await stores.redis.llen("jobs")
    return "once" if orders == told else "ghost" if told else "lost"


async def _each_once(stores: Evidence) -> str:
    jobs = await stores.redis.llen("jobs") + await stores.redis.zcard("ids")
    return ("lost", "once", "twice")[min(jobs, 2)]


def fault_table(reports: Mapping[str, Report]) -> FaultTable:
    """The table of all ways, in the words of the lesson."""
    words = load("outbox")
    named = {words["ways"][name]: report for name, report in reports.items()}
    return FaultTable(named, words["faults"], names=words["effects"])
