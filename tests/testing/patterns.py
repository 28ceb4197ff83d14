"""The patterns of qlab.postgres and qlab.patterns as handlers for the explorer, with what they claim."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import date
from typing import Any

import psycopg
from redis.asyncio import Redis

from qlab.errors import LockLost
from qlab.patterns.redis_lock import RedisLock
from qlab.postgres import advisory, cursor, idempotency, outbox, pg_queue, row_cursor
from qlab.postgres.errors import KeyBusy
from qlab.postgres.relay import Relay
from qlab.testing import Evidence, World
from tests.testing.explored import connect

Conn = psycopg.AsyncConnection[Any]
Handler = Callable[[World], Awaitable[None]]


def how_often(times: int) -> str:
    """The outcome of something that should happen once."""
    return ("lost", "once", "twice")[min(times, 2)]


def each_once(found: Iterable[Any], wanted: Iterable[Any]) -> str:
    """Twice if one is there too often, lost if one is not there."""
    found, wanted = list(found), list(wanted)
    if len(found) > len(set(found)):
        return "twice"
    return "once" if set(found) == set(wanted) else "lost"


# Idempotency ------------------------------------------------------------------------------------------------


async def charge_once(world: World) -> None:
    async def charge() -> str:
        return str((await world.provider.charge("o1", 100, "charge:o1")).id)

    async with await connect(world) as connection:
        await idempotency.run_once(connection, "charge:o1", charge, lock_seconds=world.rules.lease)


# Outbox and relay -------------------------------------------------------------------------------------------


async def create_orders(connection: Conn) -> None:
    await outbox.install(connection)
    await connection.execute("CREATE TABLE IF NOT EXISTS customer_order (id text PRIMARY KEY)")


async def order_and_message(world: World) -> None:
    async with await connect(world) as connection, connection.transaction():
        await connection.execute("INSERT INTO customer_order VALUES ('o1')")
        await outbox.write(connection, "order.created", {"order": "o1"})


async def both_or_none(stores: Evidence) -> str:
    orders = (await stores.rows("SELECT count(*) FROM customer_order"))[0][0]
    messages = (await stores.rows("SELECT count(*) FROM outbox"))[0][0]
    return "once" if orders == messages else "ghost" if messages else "lost"


async def two_messages(stores: Evidence) -> None:
    async with stores.connection.transaction():
        for order in ("o1", "o2"):
            await outbox.write(stores.connection, "order.created", {"order": order}, hint=False)


def relaying(publish: str) -> Handler:
    """A relay whose queue ignores an id that it has, or (`push`) takes whatever it is given."""

    async def handler(world: World) -> None:
        async with await connect(world) as connection, Redis.from_url(world.redis_url) as redis:

            async def add(message: outbox.Message) -> None:
                if publish == "dedupe":
                    await redis.zadd("jobs", {message.payload["order"]: message.id}, nx=True)
                else:
                    await redis.rpush("jobs", message.payload["order"])

            await Relay(connection, add, listen=False, outage=()).run_once()
            rows = await (
                await connection.execute("SELECT 1 FROM outbox WHERE published_at IS NULL")
            ).fetchall()
            if rows:
                raise LookupError("there are messages left: the next pass takes them")

    return handler


async def delivered(stores: Evidence) -> str:
    kind = await stores.redis.type("jobs")
    jobs = await (
        stores.redis.zrange("jobs", 0, -1) if kind == "zset" else stores.redis.lrange("jobs", 0, -1)
    )
    return each_once(jobs, ["o1", "o2"])


# Advisory lock ----------------------------------------------------------------------------------------------


async def create_counter(connection: Conn) -> None:
    await connection.execute("CREATE TABLE IF NOT EXISTS visit (n integer NOT NULL)")
    await connection.execute("CREATE TABLE IF NOT EXISTS visitor (name text NOT NULL)")
    await connection.execute("INSERT INTO visit SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM visit)")


async def count_visit(connection: Conn) -> None:
    """Read, add one, write: wrong as soon as two do it at once."""
    row = await (await connection.execute("SELECT n FROM visit")).fetchone()
    assert row is not None
    await connection.execute("UPDATE visit SET n = %s", [row[0] + 1])
    await connection.execute("INSERT INTO visitor VALUES ('x')")


async def visit_alone(world: World) -> None:
    async with await connect(world) as connection:
        await advisory.run_exclusive(connection, "visits", count_visit)


async def nobody_overwritten(stores: Evidence) -> str:
    counted = (await stores.rows("SELECT n FROM visit"))[0][0]
    visitors = (await stores.rows("SELECT count(*) FROM visitor"))[0][0]
    return "once" if counted == visitors else "lost"


# Cursors ----------------------------------------------------------------------------------------------------


async def create_days(connection: Conn) -> None:
    await cursor.install(connection)
    await connection.execute("CREATE TABLE IF NOT EXISTS daily (day date NOT NULL)")


def rolling_up(where: str, first: date) -> Handler:
    """Roll up the days from `first` to the end of 2029, where the virtual clock begins, here or elsewhere."""

    async def handler(world: World) -> None:
        async with await connect(world) as connection, Redis.from_url(world.redis_url) as redis:

            async def roll_up(conn: Conn, day: cursor.Day) -> None:
                if where == "here":
                    await conn.execute("INSERT INTO daily VALUES (%s)", [day.date])
                else:
                    await redis.rpush("daily", day.date.isoformat())

            await cursor.run_rollup(connection, "daily", roll_up, zone="UTC", start=first)

    return handler


async def days_here(stores: Evidence) -> str:
    return each_once([row[0].day for row in await stores.rows("SELECT day FROM daily")], [30, 31])


async def days_elsewhere(stores: Evidence) -> str:
    return each_once(await stores.redis.lrange("daily", 0, -1), ["2029-12-31"])


async def create_rows(connection: Conn) -> None:
    await row_cursor.install(connection)
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS event (id bigint PRIMARY KEY, "
        "written_by xid8 NOT NULL DEFAULT pg_current_xact_id())"
    )
    await connection.execute("CREATE TABLE IF NOT EXISTS seen (id bigint NOT NULL)")


async def three_events(stores: Evidence) -> None:
    for number in (1, 2, 3):
        await stores.connection.execute("INSERT INTO event (id) VALUES (%s)", [number])


async def read_events(world: World) -> None:
    async def read(conn: Any, after: row_cursor.Position, limit: int) -> list[Any]:
        found = await conn.execute(
            "SELECT written_by::text AS xid, id FROM event WHERE (written_by, id) > (%s::text::xid8, %s) "
            "AND written_by < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY written_by, id LIMIT %s",
            [after.xid, after.id, limit],
        )
        return [psycopg.rows.namedtuple_row(found)(row) for row in await found.fetchall()]

    async def handle(conn: Any, rows: Any) -> None:
        for row in rows:
            await conn.execute("INSERT INTO seen VALUES (%s)", [row.id])

    async with await connect(world) as connection:
        await row_cursor.run_rows(connection, "events", read, handle, limit=2)


async def events_seen(stores: Evidence) -> str:
    return each_once([row[0] for row in await stores.rows("SELECT id FROM seen")], [1, 2, 3])


# The queue in PostgreSQL ------------------------------------------------------------------------------------


async def create_jobs(connection: Conn) -> None:
    await pg_queue.install(connection)
    await connection.execute("CREATE TABLE IF NOT EXISTS receipt (sent text NOT NULL)")


async def one_pg_job(stores: Evidence) -> None:
    async with stores.connection.transaction():
        await pg_queue.enqueue(stores.connection, "mail", "receipt", {"order": "o1"}, attempts=5)


def working(effect: str, key: str | None = None) -> Handler:
    """One trip of a worker: recover what others dropped, take the job, do it, complete it."""

    async def handler(world: World) -> None:
        async with await connect(world) as connection:
            await pg_queue.recover(connection, "mail", max_stalled_count=5)
            for job in await pg_queue.take(connection, "mail", "w", lock_duration=30):
                if effect == "here":
                    async with connection.transaction():
                        await connection.execute("INSERT INTO receipt VALUES ('o1')")
                        await pg_queue.complete(connection, job)
                else:
                    await world.provider.charge("o1", 100, key)
                    await pg_queue.complete(connection, job)
            if (await pg_queue.counts(connection, "mail"))["completed"] == 0:
                raise LookupError("the job is somebody else's for now: look again later")

    return handler


async def one_receipt(stores: Evidence) -> str:
    return how_often(len(await stores.rows("SELECT 1 FROM receipt")))


async def one_charge(stores: Evidence) -> str:
    return how_often(len(stores.provider.charges))


# The lock in Redis ------------------------------------------------------------------------------------------


async def locked(world: World) -> None:
    """The lock as people use it: look whether it is done, charge, note that it is done."""
    async with Redis.from_url(world.redis_url) as redis:
        lock = RedisLock(redis, "charge", ttl=world.rules.lease)
        held = await lock.acquire()
        if held is None:
            raise KeyBusy("charge")
        try:
            if not await redis.get("done"):
                await world.provider.charge("o1", 100)
                await redis.set("done", "1")
        finally:
            await lock.release(held)


async def create_report(connection: Conn) -> None:
    await connection.execute("CREATE TABLE IF NOT EXISTS report (fence bigint NOT NULL)")
    await connection.execute("INSERT INTO report SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM report)")


async def fenced(world: World) -> None:
    async with await connect(world) as connection, Redis.from_url(world.redis_url) as redis:
        lock = RedisLock(redis, "report", ttl=world.rules.lease)
        held = await lock.acquire()
        if held is None:
            raise KeyBusy("report")
        number = {"fence": held.fence}
        done = await connection.execute(
            "UPDATE report SET fence = %(fence)s WHERE fence <= %(fence)s", number
        )
        if done.rowcount == 0:
            raise LockLost("report", "w", held.fence)
        await lock.release(held)


async def newest_wins(stores: Evidence) -> str:
    """What stands in the end was written by the newest holder who wrote at all."""
    written = (await stores.rows("SELECT fence FROM report"))[0][0]
    given = int(await stores.redis.get("qlab:fence:{report}") or 0)
    if written == given:
        return "once"
    return "lost" if written == 0 else "half"
