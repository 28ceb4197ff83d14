"""H01 and H02: who has lost the lock changes nothing; who works keeps it."""

import asyncio
import signal

import pytest

from tests.faults.field import field_worker, lines, starts, wait_for_start
from tests.redis.queue_state import read_events, until

SLACK = 1500
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["write", "raise"])
async def test_h01_a_stopped_worker_comes_back_and_is_refused_everything(
    queue, ledger, start_process, redis, kind
):
    a = field_worker(start_process, "A")
    job = await queue.add(kind, 5, attempts=3)
    await wait_for_start(ledger, "A")
    a.signal(signal.SIGSTOP)
    b = field_worker(start_process, "B")
    await wait_for_start(ledger, "B", limit=4 + 4)
    a.signal(signal.SIGCONT)
    await until(lambda: f"lock lost on job {job.id}: worker A (claim 1)" in a.output(), limit=15)
    if kind == "write":
        assert await job.wait_until_finished(20) == "B"
        assert [line.name for line in await lines(ledger, "refused")] == ["A"] * 3
        assert [line.name for line in await starts(ledger)] == ["A", "B"]
        await _is_untouched_by_a(queue, redis, job)
    else:
        await _ends_by_b_alone(queue, ledger, redis, job)
    b.signal(signal.SIGTERM)
    assert await asyncio.to_thread(b.process.wait, 10) == 0
    after = await queue.add("sleep", 0)
    assert await after.wait_until_finished(10) == "A"


async def _is_untouched_by_a(queue, redis, job):
    await job.refresh()
    assert (job.state, job.return_value, job.failed_reason) == ("completed", "B", None)
    assert (job.attempts_made, job.stalled_counter, job.claim) == (1, 1, 2)
    assert (job.progress, job.data, job.log_lines) == ("from B", "from B", ["from B"])
    assert len(await read_events(redis, queue.keys, "completed")) == 1
    assert await read_events(redis, queue.keys, "failed", "retrying") == []
    lost = await read_events(redis, queue.keys, "lock-lost")
    assert {(one["worker"], one["claim"]) for one in lost} == {("A", "1")}


async def _ends_by_b_alone(queue, ledger, redis, job):
    """B raises too: the one failure that is counted, and the one error text, is B's."""
    await until(lambda: _attempted(job), limit=20)
    stored = str(await redis.hgetall(queue.keys.job(job.id)))
    assert "from B" in stored
    assert "from A" not in stored
    assert (job.attempts_made, job.stalled_counter) == (1, 1)
    assert [line.name for line in await starts(ledger)][:2] == ["A", "B"]
    assert await read_events(redis, queue.keys, "failed") == []
    retried = await read_events(redis, queue.keys, "retrying")
    assert {one["worker"] for one in retried} == {"B"}


async def _attempted(job):
    await job.refresh()
    return job.attempts_made


@pytest.mark.parametrize("kind", ["sleep", "spin"])
async def test_h02_ab_a_plain_function_keeps_its_lock(queue, ledger, start_process, redis, kind):
    for name in "AB":
        field_worker(start_process, name, spec="plain_worker")
    job = await queue.add(kind, 4)
    await job.wait_until_finished(20)
    await job.refresh()
    assert (job.state, job.stalled_counter, job.claim) == ("completed", 0, 1)
    assert len(await starts(ledger)) == 1
    assert await read_events(redis, queue.keys, "stalled", "lock-lost") == []


async def test_h02_a_short_jobs_start_at_once_beside_a_blocking_one(queue, ledger, start_process):
    field_worker(start_process, "A", spec="plain_worker", concurrency=5)
    await queue.add("sleep", 4)
    await wait_for_start(ledger, "A")
    short = [await queue.add("short") for _ in range(4)]
    for job in short:
        assert await job.wait_until_finished(3) == "A"
        started = (await starts(ledger, job.id))[0]
        assert started.at - job.record.added_at <= 500 + SLACK
    assert (await queue.get_job_counts("active"))["active"] == 1
    await until(lambda: _nothing_active(queue), limit=10)


async def _nothing_active(queue):
    return (await queue.get_job_counts("active"))["active"] == 0


@pytest.mark.parametrize("kind", ["block", "spin"])
async def test_h02_cd_a_blocked_loop_is_told_and_changes_nothing(queue, ledger, start_process, redis, kind):
    """It cannot be protected. B only blocks for as long as its own lock allows, so it can finish the job."""
    a = field_worker(start_process, "A")
    job = await queue.add(kind, 4, attempts=3)
    await wait_for_start(ledger, "A")
    field_worker(start_process, "B", lock=10, renew=4)
    assert await job.wait_until_finished(20) == "B"
    await until(lambda: f"lock lost on job {job.id}: worker A (claim 1)" in a.output())
    assert "the event loop was blocked for" in a.output()
    await job.refresh()
    assert (job.state, job.return_value, job.failed_reason) == ("completed", "B", None)
    assert (job.attempts_made, job.stalled_counter, job.claim) == (1, 1, 2)
    assert [line.name for line in await starts(ledger)] == ["A", "B"]
    assert len(await read_events(redis, queue.keys, "completed", "failed")) == 1
