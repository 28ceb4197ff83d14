"""H05: a command that is cancelled on its way leaves no wrong answer behind."""

import asyncio
import random

import pytest

from qlab import Queue
from tests.faults.proxy import slow_proxy
from tests.redis.queue_state import until

JOBS = 200


@pytest.mark.parametrize(
    "rounds", [20, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
async def test_h05_a_cancelled_command_poisons_no_connection(queue, redis_url, prefix, rounds):
    rng = random.Random(5)
    jobs = await queue.add_bulk([("a", {"n": n}, {"job_id": f"j{n}"}) for n in range(JOBS)])
    async with (
        slow_proxy(redis_url, 0.02, 0.06, rng) as url,
        Queue("q", url + "?max_connections=2", prefix=prefix) as slow,
    ):
        tried = set()
        for n in range(rounds):
            await start_and_cancel(slow, rng, n, tried)
            await read_and_compare(slow, rng, n)
        pool = slow.connection.client.connection_pool
        await until(lambda: not pool._in_use_connections)
        assert len(pool._available_connections) <= 2
    added = {job_id for job_id in tried if await queue.get_job(job_id)}
    for job_id in added:
        assert (await queue.get_job(job_id)).data == {"tried": job_id}
    counts = await queue.get_job_counts()
    assert counts["waiting"] == len(jobs) + len(added)


async def start_and_cancel(slow, rng, n, tried):
    if rng.random() < 0.5:
        command = slow.get_job(f"j{rng.randrange(JOBS)}")
    else:
        tried.add(f"new{n}")
        command = slow.add("a", {"tried": f"new{n}"}, job_id=f"new{n}")
    task = asyncio.create_task(command)
    await asyncio.sleep(rng.uniform(0, 0.06))
    task.cancel()


async def read_and_compare(slow, rng, n):
    wanted = [rng.randrange(JOBS) for _ in range(3)]
    reads = [slow.get_job(f"j{one}") for one in wanted]
    async with asyncio.timeout(2 * 3):
        *found, counts = await asyncio.gather(*reads, slow.get_job_counts("waiting"))
    assert [job.data for job in found] == [{"n": one} for one in wanted]
    assert JOBS <= counts["waiting"] <= JOBS + n + 1


async def test_h05_more_commands_at_once_than_connections_wait_for_their_turn(redis_url, prefix, queue):
    jobs = await asyncio.gather(*(queue.add("a", n) for n in range(500)))
    assert len({job.id for job in jobs}) == 500
    async with Queue(
        "q", redis_url + ("&" if "?" in redis_url else "?") + "max_connections=1", prefix=prefix
    ) as one:
        found = await asyncio.gather(*(one.get_job(job.id) for job in jobs))
        assert [job.data for job in found] == list(range(500))
        assert len(one.connection.client.connection_pool._available_connections) == 1
