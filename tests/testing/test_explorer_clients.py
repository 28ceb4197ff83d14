"""Unchanged clients: pool, pipeline, prepared statements, redis-py, HTTP, timers, and jobs on qlab itself."""

import asyncio
import uuid

import pytest
import redis.asyncio as redis
from psycopg_pool import AsyncConnectionPool

from qlab import Queue, RedisUnavailable, Worker
from qlab.classroom.wrong import charging as wrong
from qlab.classroom.wrong import enqueueing
from qlab.postgres import idempotency, outbox
from qlab.postgres.relay import Relay
from qlab.testing import Actor, Evidence, FaultLab, Provider, ProviderClient, World, explore
from tests.testing.explored import ORDER, PATIENT, REQUEST, charged, connect

KEY = "charge:o1"


async def through_a_pool(world: World) -> None:
    check = AsyncConnectionPool.check_connection
    pool = AsyncConnectionPool(world.pg_dsn, min_size=2, max_size=3, open=False, check=check)
    async with pool:

        async def effect() -> str:
            return (await world.provider.charge("o1", 100, KEY)).id

        await idempotency.run_once(pool, KEY, effect, lock_seconds=world.rules.lease)


async def test_a_pool_and_the_right_way(lab: FaultLab):
    """Five effects, not three: qlab's claim and DONE are transactions of their own, each with its COMMIT."""
    await lab.install(idempotency.install)
    report = await explore(lab, [Actor("A", through_a_pool)], charged("idempotency_key"), rules=PATIENT)
    assert report.verdict == "no failure within 1 fault and 0 switches"
    assert [row.effect for row in report.rows] == [
        "INSERT idempotency_key", "COMMIT", "CHARGE o1", "UPDATE idempotency_key", "COMMIT",
    ]  # fmt: skip


async def pipelined(world: World) -> None:
    async with await connect(world) as connection:
        for _ in range(6):  # psycopg prepares a statement at its fifth use
            await connection.execute("SELECT %s::int", [1])
        async with connection.pipeline():
            insert = "INSERT INTO processed_job VALUES (%s) ON CONFLICT DO NOTHING RETURNING key"
            cursor = await connection.execute(insert, [KEY])
            await connection.execute("SELECT count(*) FROM processed_job")
            if await cursor.fetchone():  # sends Flush, not Sync
                await world.provider.charge("o1", 100, KEY)


async def test_prepared_statements_and_a_pipeline(lab: FaultLab):
    await lab.install(wrong.create_tables)
    report = await explore(lab, [Actor("A", pipelined)], charged())
    assert report.verdict == "lost: A6>"
    assert report.schedules == 70
    assert report.rows[6].effect == "INSERT processed_job + SELECT processed_job"


async def lock_in_redis(world: World) -> None:
    async with redis.from_url(world.redis_url, decode_responses=True) as client:
        token = str(uuid.uuid4())
        if not await client.set("lock", token, nx=True, px=int(world.rules.lease * 1000)):
            raise RuntimeError("busy")
        try:
            if not await client.get("done"):
                await world.provider.charge("o1", 100, KEY)
                await client.set("done", "1")
        finally:
            script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
            await client.eval(script, 1, "lock", token)


async def test_a_lock_in_redis_ages_on_the_virtual_clock(lab: FaultLab):
    report = await explore(lab, [Actor("A", lock_in_redis)], charged(), provider=Provider(dedupe=False))
    table = {
        row.effect: "".join(fault for fault, word in row.outcomes.items() if word != "once")
        for row in report.rows
    }
    assert table == {
        "SET lock": "!?",
        "GET done": "~!",
        "CHARGE o1": ">~?",
        "SET done": "<~!",
        "EVAL lock": "!",
    }
    assert (report.verdict, report.schedules) == ("stuck: A0?", 37)
    assert report.outcomes == {"once": 28, "twice": 8, "stuck": 1}


@pytest.mark.parametrize("way", ["tcp", "unix"])
async def test_the_provider_over_http_is_the_same_as_in_process(lab: FaultLab, way: str):
    async def over_http(world: World) -> None:
        client = (
            ProviderClient(world.provider_url)
            if way == "tcp"
            else ProviderClient("http://provider", uds=world.provider_socket)
        )
        async with client as provider, await connect(world) as connection:
            await wrong.charge_first(ORDER, connection, provider)

    async def in_process(world: World) -> None:
        async with await connect(world) as connection:
            await wrong.charge_first(ORDER, connection, world.provider)

    await lab.install(wrong.create_tables)
    one, other = [
        await explore(lab, [Actor("A", handler)], charged(), provider=Provider(dedupe=False))
        for handler in (over_http, in_process)
    ]
    assert one.digest == other.digest
    assert one.verdict == "twice: A1>"


async def with_a_heartbeat(world: World) -> None:
    async with await connect(world) as connection, await connect(world) as second:
        claim = await idempotency.claim(connection, KEY, lock_seconds=30)
        if isinstance(claim, idempotency.Done):
            return

        async def renew() -> None:
            while True:
                await asyncio.sleep(12)
                statement = "UPDATE idempotency_key SET locked_until = now() + '30 s' WHERE lock_token = %s"
                await second.execute(statement, [claim.token])

        renewing = asyncio.create_task(renew())
        try:
            await asyncio.sleep(40)  # slow work; it costs no real time
            charge = await world.provider.charge("o1", 100, KEY)
        finally:
            renewing.cancel()
        await idempotency.done(connection, claim, charge.id)


async def test_timers_of_a_handler_run_on_the_virtual_clock(lab: FaultLab):
    await lab.install(idempotency.install)
    report = await explore(
        lab, [Actor("A", with_a_heartbeat)], charged("idempotency_key"), faults=0, rules=PATIENT
    )
    quiet = await report.replay("-")
    renewals = [step.at for step in quiet.effects if step.effect == "UPDATE idempotency_key"]
    assert renewals == [12, 24, 36, 40]
    crashed = await report.replay("A3>")
    assert crashed.outcome == "once"


class ZsetQueue:
    """The least that `enqueueing` wants of a queue: a job is a member of a ZSET."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    async def add(self, name: str, data: dict) -> None:
        await self._client.zadd("queue", {data["order"]: 0}, nx=True)


def request(way) -> Actor:
    async def handler(world: World) -> None:
        async with (
            redis.from_url(world.redis_url) as client,
            await connect(world, autocommit=False) as connection,
        ):
            await way(ORDER, connection, ZsetQueue(client))

    return Actor("A", handler)


async def queued(evidence: Evidence) -> str:
    orders = {row[0] for row in await evidence.rows("SELECT id FROM orders")}
    jobs = set(await evidence.redis.zrange("queue", 0, -1))
    return "once" if orders == jobs else "ghost" if jobs - orders else "lost"


@pytest.mark.parametrize(
    ("way", "word", "cells"),
    [
        (enqueueing.add_inside, "ghost", {("ZADD queue", ">"), ("ZADD queue", "?"), ("COMMIT", "<")}),
        (enqueueing.add_after, "lost", {("COMMIT", ">"), ("COMMIT", "?"), ("ZADD queue", "<")}),
    ],
)
async def test_a_job_and_a_row_do_not_commit_together(lab: FaultLab, way, word, cells):
    await lab.install(enqueueing.create_tables)
    report = await explore(lab, [request(way)], queued, rules=REQUEST)
    assert (report.verdict, report.schedules) == (f"{word}: A1>", 13)
    assert {
        (row.effect, fault) for row in report.rows for fault, found in row.outcomes.items() if found == word
    } == cells


async def relay_to_qlab(world: World) -> None:
    async with Queue("mail", world.redis_url, clock=world.time) as queue, await connect(world) as connection:

        async def publish(message) -> None:
            await queue.add(message.topic, message.payload, job_id=message.job_id)

        relay = Relay(connection, publish, clock=world.clock)
        while (await relay.run_once()).size:
            pass


async def two_messages(evidence: Evidence) -> None:
    async with evidence.connection.transaction():
        for number in range(2):
            await outbox.write(evidence.connection, "order.paid", {"n": number})


async def both_waiting(evidence: Evidence) -> str:
    async with Queue("mail", evidence.redis_url, clock=evidence.time) as queue:
        waiting = (await queue.get_job_counts())["waiting"]
    return "once" if waiting == 2 else "lost" if waiting < 2 else "twice"


async def test_the_relay_to_a_real_queue(lab: FaultLab):
    """60 schedules for 7 effects: a pass takes all rows and marks them with one UPDATE, not row by row."""
    await lab.install(outbox.install)
    report = await explore(lab, [Actor("A", relay_to_qlab)], both_waiting, setup=two_messages)
    assert report.verdict == "no failure within 1 fault and 0 switches"
    assert [row.effect for row in report.rows] == [
        "SELECT outbox", "EVAL add_jobs", "EVAL add_jobs", "UPDATE outbox", "COMMIT",
        "SELECT outbox", "COMMIT",
    ]  # fmt: skip


async def work_by_hand(world: World) -> None:
    """A worker process of qlab, step by step: find what stalled, take a job, run it, settle it."""

    async def charge(job) -> None:
        await world.provider.charge("o1", 100, f"job:{job.id}")

    async def again(call):
        while True:
            try:
                return await call()
            except RedisUnavailable:
                await asyncio.sleep(0.1)

    worker = Worker("mail", charge, world.redis_url, lock_duration=30, clock=world.time, name="worker")
    try:
        await again(lambda: worker.connection.call("recover", max_stalled=3))
        await again(worker.step)
        while worker.running:
            await asyncio.sleep(0.01)
            await again(worker.step)
    finally:
        await worker.close()


async def one_job(evidence: Evidence) -> None:
    async with Queue("mail", evidence.redis_url, clock=evidence.time) as queue:
        await queue.add("charge", {"order": "o1"}, job_id="j1", attempts=3)


async def completed_once(evidence: Evidence) -> str:
    async with Queue("mail", evidence.redis_url, clock=evidence.time) as queue:
        state = (await queue.get_job("j1")).record.state
    charges = len(evidence.provider.charges)
    if charges > 1:
        return "twice"
    return "once" if charges and state == "completed" else "half" if charges else "lost"


async def test_the_pump_of_a_worker(lab: FaultLab):
    """A lost reply of the pump takes nothing twice, a crash loses nothing: the next worker recovers it."""
    report = await explore(lab, [Actor("A", work_by_hand)], completed_once, setup=one_job)
    assert [row.effect for row in report.rows] == [
        "EVAL recover", "EVAL settle_and_take", "CHARGE o1", "EVAL settle_and_take",
    ]  # fmt: skip
    assert report.verdict == "no failure within 1 fault and 0 switches"
