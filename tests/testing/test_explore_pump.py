"""Jobs on qlab itself: Queue.add and the pump's scripts as effects, every fault at each of them."""

import asyncio
from typing import Any

import pytest

from qlab import Queue, Worker
from qlab.errors import RedisUnavailable
from qlab.testing import Actor, Evidence, FaultLab, World, assert_no_failure, explore
from tests.testing.explored import PATIENT

ORDER = {"order": "o1", "amount": 100}


async def one_job(stores: Evidence) -> None:
    async with Queue("mail", stores.redis_url, clock=stores.time) as queue:
        await queue.add("charge", ORDER, job_id="o1", attempts=5)


async def step(worker: Worker) -> None:
    """A trip of the pump that got no reply is made again as it was, as the worker's own loop does."""
    for _ in range(3):
        try:
            await worker.step()
        except RedisUnavailable:
            continue
        return
    raise TimeoutError("Redis is away")


def working(key: str | None, name: str = "A") -> Actor:
    """A worker process: it looks for what others dropped, takes the job, runs it and settles it."""

    async def handler(world: World) -> None:
        ended = asyncio.Event()

        async def charge(job: Any) -> str:
            try:
                return str((await world.provider.charge(**job.data, key=key)).id)
            finally:
                ended.set()

        worker = Worker("mail", charge, world.redis_url, clock=world.time)
        try:
            await worker.connection.call("recover", max_stalled=5)
            await step(worker)
            while worker.running:
                await ended.wait()
                ended.clear()
                await asyncio.sleep(0)  # the runner hands the result to the pump
                await step(worker)
        finally:
            await worker.close()
        async with Queue("mail", world.redis_url, clock=world.time) as queue:
            if not (await queue.get_job_counts("completed"))["completed"]:
                raise LookupError("the job is not done: look again later")

    return Actor(name, handler)


async def completed_and_charged(stores: Evidence) -> str:
    async with Queue("mail", stores.redis_url, clock=stores.time) as queue:
        counts = await queue.get_job_counts()
    if counts["completed"] != 1 or sum(counts.values()) != 1:
        return "stuck"
    return ("lost", "once", "twice")[min(len(stores.provider.charges), 2)]


async def test_the_pump_gives_every_job_to_a_handler_at_least_once(lab: FaultLab):
    report = await explore(lab, [working(None)], completed_and_charged, setup=one_job, rules=PATIENT)
    assert set(report.outcomes) == {"once", "twice"}


async def test_with_a_key_of_its_own_a_job_is_charged_once_and_completed(lab: FaultLab):
    actors = [working("charge:o1")]
    await assert_no_failure(lab, actors, completed_and_charged, setup=one_job, rules=PATIENT)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_two_workers_and_a_fault_charge_once_with_a_key_and_complete_the_job(lab: FaultLab):
    pair = [working("charge:o1", "A"), working("charge:o1", "B")]
    await assert_no_failure(lab, pair, completed_and_charged, setup=one_job, rules=PATIENT, switches=1)


def adding(job_id: str | None) -> Actor:
    """A producer that tries again when it does not hear whether its job was added."""

    async def handler(world: World) -> None:
        async with Queue("mail", world.redis_url, clock=world.time) as queue:
            await queue.add("charge", ORDER, job_id=job_id)

    return Actor("A", handler)


async def one_waiting(stores: Evidence) -> str:
    async with Queue("mail", stores.redis_url, clock=stores.time) as queue:
        waiting = (await queue.get_job_counts("waiting"))["waiting"]
    return ("lost", "once", "twice")[min(waiting, 2)]


async def test_an_add_that_is_tried_again_enqueues_once_under_a_job_id_of_its_own(lab: FaultLab):
    await assert_no_failure(lab, [adding("o1")], one_waiting, rules=PATIENT)


async def test_an_add_that_is_tried_again_without_an_id_may_enqueue_twice(lab: FaultLab):
    report = await explore(lab, [adding(None)], one_waiting, rules=PATIENT)
    assert set(report.outcomes) == {"once", "twice"}
