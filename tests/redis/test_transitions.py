"""Every script that changes a queue: seed every set, run it once, compare every set."""

from importlib.resources import files

import pytest

from qlab import Queue
from tests.redis.queue_state import check_invariants, members

NOW = 1_900_000_000_000
LOCK = 1000
SEEDED = {
    "waiting": "w1 w2", "prioritized": "p1 p2", "delayed": "d1 d2", "active": "a x",
    "waiting-children": "", "completed": "c", "failed": "f",
}  # fmt: skip
"""Ids in order. `a` is held by token T (claim 1), the lease of `x` is over; d1 is due in 1 s, d2 in 9 s."""

FLOWS = {"add_flow"}  # in tests/redis/test_flow*.py


@pytest.fixture
async def queue(redis_url, prefix, redis):
    clock = Clock()
    async with Queue("q", redis_url, prefix=prefix, clock=clock) as queue:
        queue.clock = clock
        for job_id in "cfax":
            await queue.add("a", job_id=job_id)
        await trip(queue, want=4)
        await trip(queue, end("completed", "c", extra=":"), end("failed", "f", extra=":"))
        for job_id in ("w1", "w2"):
            await queue.add("a", job_id=job_id)
        for job_id, priority in (("p1", 1), ("p2", 5)):
            await queue.add("a", job_id=job_id, priority=priority)
        for job_id, delay in (("d1", 1), ("d2", 9)):
            await queue.add("a", job_id=job_id, delay=delay)
        await redis.zadd(queue.keys["active"], {"x": NOW - 1}, xx=True)
        assert await look(redis, queue) == SEEDED
        yield queue
    await check_invariants(redis, queue.keys)


class Clock:
    def __init__(self):
        self.ms, self.trips = NOW, 0

    def __call__(self):
        return self.ms / 1000


async def look(redis, queue):
    found = await members(redis, queue.keys)
    ordered = ("waiting", "prioritized", "delayed")
    return {state: " ".join(ids if state in ordered else sorted(ids)) for state, ids in found.items()}


def end(kind, job_id, claim=1, extra=""):
    return [kind, job_id, claim, 1, "1", "", extra]


async def trip(queue, *ends, want=0, token="T"):
    queue.clock.trips += 1
    words = [word for one in ends for word in one]
    return await queue.connection.call(
        "settle_and_take", words, token=token, worker="W", lock=LOCK, trip=queue.clock.trips, want=want,
        count=len(ends),
    )  # fmt: skip


async def change(queue, verb, job_id, delay=0):
    birth = await queue.connection.command("HGET", queue.keys.job(job_id), "birth")
    return await queue.connection.call(
        "change_job", verb=verb, id=job_id, birth=birth, replays=0, delay=delay
    )


def job(job_id, delay=0, priority=""):
    fields = ["name", "a", "data", "1", *(["priority", priority] if priority else [])]
    return [job_id, delay, priority, "", 0, len(fields), *fields]


async def tick(queue):
    spec, due = "every", NOW
    await queue.connection.call("upsert_schedule", ["name", "a"], id="s", spec=spec, next=due)
    return await queue.connection.call("tick", job("t"), id="s", spec=spec, nominal=due, next=due + 1000)


def call(script, rest=None, **fixed):
    return lambda queue: queue.connection.call(script, rest or [], **fixed)


async def later(queue):
    queue.clock.ms += 1000
    return await trip(queue)


async def paused(queue):
    await queue.pause()
    return await trip(queue, want=5)


TRANSITIONS = {
    "add_jobs": (call("add_jobs", job("n")), {"waiting": "w1 w2 n"}),
    "add_jobs with a priority": (call("add_jobs", job("n", priority=3)), {"prioritized": "p1 n p2"}),
    "add_jobs with a delay": (call("add_jobs", job("n", delay=5000)), {"delayed": "d1 n d2"}),
    "add_jobs of one that is there": (call("add_jobs", job("c")), {}),
    "settle completed": (
        lambda q: trip(q, end("completed", "a", extra=":")), {"active": "x", "completed": "a c"},
    ),
    "settle failed": (lambda q: trip(q, end("failed", "a", extra=":")), {"active": "x", "failed": "a f"}),
    "settle and remove": (lambda q: trip(q, end("completed", "a", extra=":0")), {"active": "x"}),
    "settle retrying": (
        lambda q: trip(q, end("retrying", "a", extra="0")), {"active": "x", "waiting": "a w1 w2"},
    ),
    "settle retrying later": (
        lambda q: trip(q, end("retrying", "a", extra="5000")), {"active": "x", "delayed": "d1 a d2"},
    ),
    "settle delay": (
        lambda q: trip(q, end("delay", "a", extra="10000")), {"active": "x", "delayed": "d1 d2 a"},
    ),
    "settle put-back": (lambda q: trip(q, end("put-back", "a")), {"active": "x", "waiting": "a w1 w2"}),
    "settle by another": (lambda q: trip(q, end("completed", "a", extra=":"), token="U"), {}),
    "settle an old claim": (lambda q: trip(q, end("completed", "a", claim=0, extra=":")), {}),
    "take": (lambda q: trip(q, want=1), {"waiting": "w2", "active": "a w1 x"}),
    "take over the classes": (
        lambda q: trip(q, want=3), {"waiting": "", "prioritized": "p2", "active": "a p1 w1 w2 x"},
    ),
    "take while paused": (paused, {}),
    "promote": (later, {"delayed": "d2", "waiting": "w1 w2 d1"}),
    "renew": (call("renew", ["a", 1, "x", 1], token="T", lock=LOCK), {}),
    "recover": (call("recover", max_stalled=1), {"active": "a", "waiting": "x w1 w2"}),
    "recover too often": (call("recover", max_stalled=0), {"active": "a", "failed": "f x"}),
    "note": (call("note", token="T", worker="W", id="a", claim=1, what="log", value="1"), {}),
    "set_gate pause": (call("set_gate", verb="pause", ms=0), {}),
    "set_gate resume": (call("set_gate", verb="resume", ms=0), {}),
    "set_gate limit": (call("set_gate", verb="limit", ms=1000), {}),
    "change_job remove waiting": (lambda q: change(q, "remove", "w1"), {"waiting": "w2"}),
    "change_job remove prioritized": (lambda q: change(q, "remove", "p1"), {"prioritized": "p2"}),
    "change_job remove delayed": (lambda q: change(q, "remove", "d1"), {"delayed": "d2"}),
    "change_job remove completed": (lambda q: change(q, "remove", "c"), {"completed": ""}),
    "change_job remove failed": (lambda q: change(q, "remove", "f"), {"failed": ""}),
    "change_job remove active": (lambda q: change(q, "remove", "a"), {}),
    "change_job retry": (lambda q: change(q, "retry", "f"), {"failed": "", "waiting": "w1 w2 f"}),
    "change_job rerun": (lambda q: change(q, "rerun", "c"), {"completed": "", "waiting": "w1 w2 c"}),
    "change_job delay": (lambda q: change(q, "delay", "d1", 20_000), {"delayed": "d2 d1"}),
    "change_job promote": (lambda q: change(q, "promote", "d2"), {"delayed": "d1", "waiting": "w1 w2 d2"}),
    "clean waiting": (call("clean", state="waiting", grace=0, limit=1), {"waiting": "w2"}),
    "clean prioritized": (call("clean", state="prioritized", grace=0, limit=1), {"prioritized": "p2"}),
    "clean delayed": (call("clean", state="delayed", grace=0, limit=1), {"delayed": "d2"}),
    "clean completed": (call("clean", state="completed", grace=0, limit=9), {"completed": ""}),
    "clean failed": (call("clean", state="failed", grace=0, limit=9), {"failed": ""}),
    "clean what ended just now": (call("clean", state="failed", grace=1, limit=9), {}),
    "upsert_schedule": (call("upsert_schedule", ["name", "a"], id="s", spec="every", next=NOW), {}),
    "due_schedules": (call("due_schedules"), {}),
    "tick": (tick, {"waiting": "w1 w2 t"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSITIONS)
async def test_it_changes_these_sets_and_no_other(queue, redis, name):
    run, changed = TRANSITIONS[name]
    await run(queue)
    assert await look(redis, queue) == SEEDED | changed


def test_every_script_is_here():
    """A new entry script needs a row above (the ones of flows are in their own files)."""
    folder = files("qlab") / "lua"
    entries = {
        path.name.removesuffix(".lua")
        for path in folder.iterdir()
        if path.name.endswith(".lua") and "\n-- ARGV " in path.read_text(encoding="utf-8")
    }
    aliases = {"settle": "settle_and_take", "take": "settle_and_take", "promote": "settle_and_take"}
    here = {name.split()[0] for name in TRANSITIONS}
    assert {aliases.get(name, name) for name in here} == entries - FLOWS


async def test_a_job_that_must_be_alone_is_lent_by_itself_and_what_came_after_it_keeps_its_place(
    queue, redis
):
    await queue.connection.call("recover", max_stalled=1)
    await trip(queue, want=5)
    assert (await look(redis, queue)) == SEEDED | {"active": "a x"}
    await redis.hset(queue.keys.job("w2"), "alone", 1)
    await redis.hset(queue.keys.job("p1"), "alone", 1)
    await trip(queue, want=5)
    assert await look(redis, queue) == SEEDED | {"active": "a w1 x", "waiting": "w2"}
    await trip(queue, want=5)
    assert await look(redis, queue) == SEEDED | {"active": "a w1 w2 x", "waiting": ""}
    await trip(queue, want=5)
    assert (await look(redis, queue))["prioritized"] == "p2"
