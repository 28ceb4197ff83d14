"""A Redis without room: one policy loses jobs silently, the other refuses and keeps what it accepted."""

import asyncio
import logging

import pytest

from qlab import Queue, RedisFull, Worker
from qlab.classroom.flood import fill_up, flood, log_lines, more_memory, run_all
from qlab.classroom.small_server import close_all, small_redis
from qlab.classroom.spike import until_empty

COUNT = 1500


@pytest.fixture(autouse=True)
def closed():
    yield
    close_all()


async def overfill(policy):
    server = small_redis("2mb", policy)
    with log_lines() as lines:
        said = await flood(server.url, COUNT)
        more_memory(server.url)
        ran = await run_all(server.url)
    return said, ran, lines


async def test_s2_7_allkeys_lru_accepts_everything_and_loses_jobs_without_an_error():
    said, ran, lines = await overfill("allkeys-lru")
    assert said == {"accepted": COUNT, "refused": 0}
    assert len(ran) < COUNT
    assert any("DELETES JOBS" in line for line in lines)


async def test_s2_8_noeviction_refuses_and_runs_every_job_that_it_accepted():
    said, ran, lines = await overfill("noeviction")
    assert said["refused"] > 0
    assert said["accepted"] + said["refused"] == COUNT
    assert len(ran) == said["accepted"]
    assert not any("DELETES" in line for line in lines)


def test_log_lines_are_caught_and_go_nowhere_else(capsys, caplog):
    with log_lines("qlab.test") as lines:
        logging.getLogger("qlab.test").warning("full: %d", 7)
    assert lines == ["full: 7"]
    assert caplog.records == []
    assert capsys.readouterr().err == ""
    assert logging.getLogger("qlab.test").propagate


async def test_q27_an_ack_is_refused_as_well_until_there_is_room_again():
    server = small_redis("3mb")
    begun, go = asyncio.Event(), asyncio.Event()

    async def handle(job):
        begun.set()
        await go.wait()

    with log_lines() as lines:
        async with Queue("q", server.url) as queue, Worker("q", handle, server.url):
            await queue.add("a")
            await begun.wait()
            fill_up(server.url)
            with pytest.raises(RedisFull):
                await queue.add("b")
            go.set()
            async with asyncio.timeout(20):
                while not any("is full" in line for line in lines):
                    await asyncio.sleep(0.01)
            assert await queue.get_job_counts("active", "completed") == {"active": 1, "completed": 0}
            more_memory(server.url)
            await until_empty(queue)
            assert await queue.get_job_counts("completed") == {"completed": 1}
