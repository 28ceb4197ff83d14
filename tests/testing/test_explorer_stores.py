"""Two stores and no common transaction: what a single fault shows."""

import psycopg
import redis.asyncio as redis

from qlab.classroom.wrong import charging as wrong
from qlab.classroom.wrong import enqueueing
from qlab.postgres import outbox
from qlab.postgres.relay import Relay
from qlab.testing import Actor, Evidence, FaultLab, Provider, Report, World, explore
from tests.testing.explored import ORDER, REQUEST, charged, connect


def failing(report: Report) -> dict[str, str]:
    """For each effect the faults that do not end well."""
    bad = {
        f"{row.actor} {row.index} {row.effect}": "".join(
            fault for fault, word in row.outcomes.items() if word not in ("once", None)
        )
        for row in report.rows
    }
    return {effect: faults for effect, faults in bad.items() if faults}


async def in_one_transaction(world: World) -> None:
    """Key and charge in one transaction: the row lock keeps others out, a crash rolls the key back."""
    async with await connect(world, autocommit=False) as connection:
        statement = "INSERT INTO processed_job VALUES ('o1') ON CONFLICT DO NOTHING"
        if (await connection.execute(statement)).rowcount:
            await world.provider.charge("o1", 100, "charge:o1")


async def test_a_charge_inside_a_transaction_is_not_rolled_back(lab: FaultLab):
    await lab.install(wrong.create_tables)
    report = await explore(lab, [Actor("A", in_one_transaction)], charged(), provider=Provider(dedupe=False))
    assert (report.verdict, report.schedules) == ("twice: A1>", 20)
    assert failing(report) == {"A 2 CHARGE o1": ">?", "A 3 COMMIT": "<"}


class Zset:
    """The least that `enqueueing` and the relay want of a queue: a job is a member of a ZSET."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    async def add(self, name: str, data: dict) -> None:
        await self._client.zadd("queue", {data["order"]: 0}, nx=True)


async def add_inside(world: World) -> None:
    opening = connect(world, autocommit=False)
    async with redis.from_url(world.redis_url) as client, await opening as connection:
        await enqueueing.add_inside(ORDER, connection, Zset(client))


async def confirm(world: World) -> None:
    """A worker that drops a job whose order does not exist."""
    async with (
        redis.from_url(world.redis_url, decode_responses=True) as client,
        await connect(world) as connection,
    ):
        while job := await client.zpopmin("queue"):
            cursor = await connection.execute("SELECT 1 FROM orders WHERE id = %s", [job[0][0]])
            if await cursor.fetchone():
                await client.sadd("confirmed", job[0][0])


async def every_order_confirmed(evidence: Evidence) -> str:
    orders = {row[0] for row in await evidence.rows("SELECT id FROM orders")}
    jobs = set(await evidence.redis.zrange("queue", 0, -1))
    return "once" if orders <= jobs | await evidence.redis.smembers("confirmed") else "lost"


async def test_a_job_that_is_faster_than_its_transaction_is_dropped(lab: FaultLab):
    """A stalls before COMMIT, after its job is in the queue: the worker finds no order (A2~)."""
    await lab.install(enqueueing.create_tables)
    pair = [Actor("A", add_inside), Actor("B", confirm)]
    report = await explore(lab, pair, every_order_confirmed, rules=REQUEST)
    assert (report.verdict, report.schedules) == ("lost: A2~", 29)
    assert report.outcomes == {"once": 22, "lost": 7}


async def relay(world: World) -> None:
    async with redis.from_url(world.redis_url) as client, await connect(world) as connection:

        async def publish(message) -> None:
            await client.zadd("queue", {message.job_id: 0}, nx=True)

        await Relay(connection, publish, clock=world.clock).run_once()


async def consume(world: World) -> None:
    """A queue that forgets what it has finished: the same id may come again."""
    async with redis.from_url(world.redis_url) as client:
        while job := await client.zpopmin("queue"):
            await client.rpush("ran", job[0][0])


async def one_message(evidence: Evidence) -> None:
    async with evidence.connection.transaction():
        await outbox.write(evidence.connection, "order.paid", {"order": "o1"})


async def ran_once(evidence: Evidence) -> str:
    ran = await evidence.redis.lrange("ran", 0, -1) + await evidence.redis.zrange("queue", 0, -1)
    return "twice" if len(ran) > 1 else "once" if ran else "lost"


async def test_an_outbox_needs_a_consumer_that_remembers(lab: FaultLab):
    """Between publish and COMMIT a crash sends the message again; B has run and forgotten the first by then.

    A lost reply of ZADD does not show here: the relay takes it for an error of the row, which waits for a
    later pass; only one is made.
    """
    await lab.install(outbox.install)
    pair = [Actor("A", relay), Actor("B", consume)]
    report = await explore(lab, pair, ran_once, setup=one_message)
    assert report.shortest_failure.outcome == "twice"
    assert {effect: faults for effect, faults in failing(report).items() if effect.startswith("A")} == {
        "A 2 ZADD queue": ">", "A 3 UPDATE outbox": "<>?", "A 4 COMMIT": "<",
    }  # fmt: skip
    alone = await explore(lab, pair[:1], ran_once, setup=one_message)
    assert alone.verdict == "no failure within 1 fault and 0 switches"


NOTES = "CREATE TABLE IF NOT EXISTS note (id int GENERATED ALWAYS AS IDENTITY, text text)"


async def test_rows_that_a_handler_leaves_do_not_reach_the_next_schedule(lab: FaultLab):
    async def leave(connection: psycopg.AsyncConnection) -> None:
        await wrong.create_tables(connection)
        await connection.execute(NOTES)

    async def write(world: World) -> None:
        async with await connect(world) as connection:
            await connection.execute("INSERT INTO note (text) VALUES ('x')")

    async def first(evidence: Evidence) -> str:
        return "once" if await evidence.rows("SELECT id, text FROM note") in ([(1, "x")], []) else "half"

    await lab.install(leave)
    report = await explore(lab, [Actor("A", write)], first, rules=REQUEST)
    assert report.outcomes == {"once": 5}
