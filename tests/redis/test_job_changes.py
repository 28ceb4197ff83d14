"""What may be done to a job from outside, and what is refused."""

import asyncio

import pytest

from qlab import Backoff, JobFailed, JobGone, JobStateError
from tests.redis.queue_state import members, until


async def in_state(queue, start_worker, state):
    """A job in the state, and what lets it go if it is active."""
    release = asyncio.Event()

    async def handler(job):
        if job.name == "active":
            await release.wait()
        if job.name == "failed":
            raise RuntimeError("no")

    options = {"delayed": {"delay": 60}, "prioritized": {"priority": 5}}.get(state, {})
    job = await queue.add(state, 1, **options)
    if state in ("active", "completed", "failed"):
        await start_worker(handler)
        await until(lambda: _is(job, state))
    return job, release


async def _is(job, state):
    return (await job.refresh()).state == state


FREE = ["waiting", "prioritized", "delayed", "completed", "failed"]


@pytest.mark.parametrize("state", FREE)
async def test_a_job_that_nobody_holds_can_be_removed(queue, start_worker, redis, state):
    job, _ = await in_state(queue, start_worker, state)
    await job.remove()
    assert await queue.get_job(job.id) is None
    assert not any((await members(redis, queue.keys)).values())
    with pytest.raises(JobGone):
        await job.remove()


async def test_an_active_job_cannot_be_removed(queue, start_worker):
    job, release = await in_state(queue, start_worker, "active")
    with pytest.raises(JobStateError, match=f"job {job.id} is active: a job that a worker holds"):
        await job.remove()
    release.set()
    await job.wait_until_finished(5)


async def test_another_job_with_the_same_id_is_left_alone(queue):
    old = await queue.add("a", 1, job_id="x")
    await old.remove()
    new = await queue.add("a", 2, job_id="x")
    with pytest.raises(JobGone):
        await old.remove()
    assert (await new.refresh()).data == 2


@pytest.mark.parametrize("state", ["waiting", "prioritized", "completed", "failed"])
async def test_only_a_delayed_job_can_be_moved_in_time(queue, start_worker, state):
    job, _ = await in_state(queue, start_worker, state)
    for change in (job.promote(), job.change_delay(1)):
        with pytest.raises(JobStateError, match=f"is {state}: only a delayed job"):
            await change


async def test_a_delay_can_be_changed_in_both_directions(queue, start_worker, redis):
    later, sooner = await queue.add("a", delay=60), await queue.add("a", delay=30)
    await later.change_delay(0.05)
    await sooner.change_delay(90)
    assert (await members(redis, queue.keys))["delayed"] == [later.id, sooner.id]

    async def handler(job):
        return "ran"

    await start_worker(handler)
    assert await later.wait_until_finished(5) == "ran"
    assert (await sooner.refresh()).state == "delayed"


async def test_a_promoted_job_runs_at_once(queue, start_worker):
    async def handler(job):
        return "ran"

    await start_worker(handler)
    job = await queue.add("a", delay=60)
    await job.promote()
    assert await job.wait_until_finished(5) == "ran"


async def test_h30_a_replay_starts_from_nothing_and_gets_all_its_attempts(queue, start_worker):
    runs = []

    async def handler(job):
        runs.append(job.attempts_made)
        raise RuntimeError(f"run {len(runs)}")

    await start_worker(handler)
    job = await queue.add("a", attempts=3, backoff=Backoff.fixed(0.01), delay=0.05, priority=4)
    with pytest.raises(JobFailed, match="run 3"):
        await job.wait_until_finished(5)
    await job.retry()
    with pytest.raises(JobFailed, match="run 6"):
        await job.wait_until_finished(5)
    assert runs == [0, 1, 2, 0, 1, 2]
    await job.refresh()
    assert (job.attempts_made, job.stalled_counter, job.record.replays, job.record.priority) == (3, 0, 1, 4)


async def test_h30_two_replays_at_once_run_the_job_once(queue, start_worker):
    job, _ = await in_state(queue, start_worker, "failed")
    results = await asyncio.gather(job.retry(), job.retry(), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["JobStateError", "NoneType"]
    await until(lambda: _is(job, "failed"))
    assert (job.record.replays, job.claim) == (1, 2)
