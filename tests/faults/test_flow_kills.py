"""SIGKILL at every step of a flow and of a tick: nothing is lost or doubled, a parent is released once."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qlab import Queue
from tests.faults import flow_process
from tests.faults.kill_proxy import KillProxy, calls
from tests.redis.flow_state import check_flows
from tests.redis.queue_state import read_events

FLOW_STEPS = calls("add_flow", "settle_and_take")
TICK_STEPS = calls("upsert_schedule", "due_schedules", "tick")


def start(what, url, prefix):
    environment = os.environ | {"QLAB_REDIS_URL": url, "QLAB_PREFIX": prefix}
    return subprocess.Popen(
        [sys.executable, str(Path(flow_process.__file__)), what],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


async def run_killed(what, chosen, number, when, redis_url, prefix):
    """Run the process behind the proxy; True if it was killed, False if it ended before that step."""
    async with KillProxy(redis_url, chosen, number, when) as proxy:
        process = start(what, proxy.url, prefix)
        proxy.victim = process.kill
        output, _ = await asyncio.to_thread(process.communicate, timeout=60)
        assert proxy.killed.is_set() != output.startswith("done")
        return proxy.killed.is_set()


async def run_to_its_end(what, redis_url, prefix):
    output, _ = await asyncio.to_thread(start(what, redis_url, prefix).communicate, timeout=60)
    assert output.startswith("done")


async def check_the_flow(redis, redis_url, prefix):
    async with (
        Queue("report", redis_url, prefix=prefix) as reports,
        Queue("thumb", redis_url, prefix=prefix) as thumbs,
    ):
        assert (await reports.get_job("p")).return_value == [1, 4]
        assert await thumbs.get_job_counts("completed") == {"completed": 4}
        added = await read_events(redis, thumbs.keys, "added") + await read_events(
            redis, reports.keys, "added"
        )
        assert sorted(one["job"] for one in added) == ["c1", "c2", "c3", "m", "p"]
        for queue, name in ((reports, "p"), (thumbs, "m")):
            events = [one["event"] for one in await read_events(redis, queue.keys) if one["job"] == name]
            lined_up = events.count("waiting") - events.count("stalled")
            assert lined_up == 1, f"{name} was released {lined_up} times: {events}"
        await check_flows(redis, prefix)


def settles(*job_ids):
    """A trip that settles these jobs."""
    trips = calls("settle_and_take")
    words = [f"completed\r\n${len(one)}\r\n{one}\r\n".encode() for one in job_ids]
    return lambda request: trips(request) and any(word in request for word in words)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_h13_a_worker_is_killed_when_a_child_ends(redis, redis_url, prefix, number, when):
    """The third of them is the last child of the inner job."""
    assert await run_killed("flow", settles("c1", "c2", "c3"), number, when, redis_url, prefix)
    await run_to_its_end("flow", redis_url, prefix)
    await check_the_flow(redis, redis_url, prefix)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_flow_survives_a_kill_at_every_step(redis, redis_url, prefix, when):
    number = 1
    while await run_killed("flow", FLOW_STEPS, number, when, redis_url, f"{prefix}:{number}"):
        await run_to_its_end("flow", redis_url, f"{prefix}:{number}")
        await check_the_flow(redis, redis_url, f"{prefix}:{number}")
        number += 1
    assert number > 8  # add, and each of five jobs is taken and settled, some of them in one trip


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_flow_whose_connections_are_cut_at_every_second_trip(redis, redis_url, prefix, when):
    """The workers live on and make each trip again, with its number: nothing acts twice."""
    async with KillProxy(redis_url, calls("settle_and_take"), 2, when) as proxy:
        await run_to_its_end("flow", proxy.url, prefix)
        assert proxy.cuts >= 3
    await check_the_flow(redis, redis_url, prefix)


async def check_the_ticks(redis_url, prefix):
    """One job for each nominal tick from the first to the last."""
    async with Queue("thumb", redis_url, prefix=prefix) as queue:
        ids = await queue.connection.command("ZRANGE", queue.keys["completed"], 0, -1)
        ticks = sorted(int(job_id.rpartition("-")[2]) for job_id in ids)
        assert len(ticks) >= 10
        assert ticks == list(range(ticks[0], ticks[-1] + 1, 100))
        (made,) = await queue.get_job_schedulers()
        total = sum((await queue.get_job_counts()).values())
        assert (made.id, made.count) == ("s", total)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_h14_a_scheduler_is_killed_at_a_tick(redis_url, prefix, when):
    assert await run_killed("tick", calls("tick"), 2, when, redis_url, prefix)
    await run_to_its_end("tick", redis_url, prefix)
    await check_the_ticks(redis_url, prefix)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_h14_a_schedule_survives_a_kill_at_every_step_of_its_first_ticks(redis_url, prefix, when):
    for number in range(1, 6):
        assert await run_killed("tick", TICK_STEPS, number, when, redis_url, f"{prefix}:{number}")
        await run_to_its_end("tick", redis_url, f"{prefix}:{number}")
        await check_the_ticks(redis_url, f"{prefix}:{number}")
