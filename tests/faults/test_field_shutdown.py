"""H20: however a worker process is asked to end, jobs are finished or given back, and it ends in time."""

import asyncio
import signal
import time

import pytest

from tests.faults.field import field_worker, starts, wait_for_start
from tests.redis.queue_state import read_events, until

SLACK = 1.5


async def ends_within(process, limit):
    """Wait for the end of the process; return its exit code and how long it took."""
    before = time.monotonic()
    code = await asyncio.to_thread(process.process.wait, limit + SLACK)
    return code, time.monotonic() - before


async def counts(queue):
    return {state: n for state, n in (await queue.get_job_counts()).items() if n}


@pytest.mark.slow
async def test_h20_a_the_first_signal_lets_the_job_end_and_keeps_its_lock(
    queue, ledger, start_process, redis
):
    a = field_worker(start_process, "A")
    job = await queue.add("sleep", 5)
    await wait_for_start(ledger, "A")
    field_worker(start_process, "B")
    await asyncio.sleep(0.3)
    a.signal(signal.SIGTERM)
    code, took = await ends_within(a, 6)
    assert code == 0
    assert took >= 4
    assert await job.wait_until_finished(5) == "A"
    await job.refresh()
    assert (job.state, job.stalled_counter, job.claim) == ("completed", 0, 1)
    assert len(await starts(ledger)) == 1
    assert await read_events(redis, queue.keys, "stalled") == []
    assert "Traceback" not in a.output()
    assert await counts(queue) == {"completed": 1}


@pytest.mark.parametrize("spec", ["worker", "plain_worker"])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_h20_bc_a_second_signal_gives_the_job_to_the_other_worker(
    queue, ledger, start_process, redis, second, spec
):
    """The lock lasts long: it is not its end that gives the job back."""
    a = field_worker(start_process, "A", spec=spec, lock=20, renew=5, check=20)
    job = await queue.add("sleep", 15, attempts=2)
    await wait_for_start(ledger, "A")
    b = field_worker(start_process, "B", lock=20, renew=5, check=20)
    await until(lambda: "connected" in b.output(), limit=20)
    a.signal(signal.SIGTERM)
    await until(lambda: "finishing 1 running job" in a.output())
    a.signal(second)
    code, _ = await ends_within(a, 2)
    assert code == 0
    await wait_for_start(ledger, "B")
    first = await read_events(redis, queue.keys, "active", "waiting")
    assert [one["event"] for one in first] == ["active", "waiting", "active"]
    assert int(first[2]["at"]) - int(first[1]["at"]) <= 1000 + SLACK * 1000
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter) == ("active", 0, 0)
    assert "Traceback" not in a.output()
    b.signal(signal.SIGTERM)
    await until(lambda: "finishing 1 running job" in b.output())
    b.signal(signal.SIGTERM)
    assert (await ends_within(b, 2))[0] == 0
    assert await counts(queue) == {"waiting": 1}


async def test_h20_d_an_idle_worker_ends_within_a_second(queue, start_process):
    a = field_worker(start_process, "A")
    await until(lambda: "connected" in a.output(), limit=20)
    a.signal(signal.SIGTERM)
    code, took = await ends_within(a, 1)
    assert (code, took <= 1 + SLACK) == (0, True)
    assert "Traceback" not in a.output()


@pytest.mark.parametrize(("spec", "kind"), [("worker", "stubborn"), ("plain_worker", "sleep")])
async def test_h20_e_a_handler_that_ignores_its_cancellation_cannot_hold_up_the_end(
    queue, ledger, start_process, spec, kind
):
    a = field_worker(start_process, "A", spec=spec, arguments=("--close-timeout", "2"))
    job = await queue.add(kind, 60, attempts=2)
    await wait_for_start(ledger, "A")
    a.signal(signal.SIGTERM)
    code, took = await ends_within(a, 3)
    assert (code, 2 <= took <= 3 + SLACK) == (0, True)
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter) == ("waiting", 0, 0)
    assert "Traceback" not in a.output()
    assert await counts(queue) == {"waiting": 1}


async def test_h20_f_a_signal_at_any_moment_of_the_start_ends_the_process(queue, start_process):
    """From the first instructions of the interpreter to the first trip."""
    await queue.add("sleep", 0)
    for n in range(12):
        a = field_worker(start_process, f"A{n}")
        await asyncio.sleep(n * 0.05)
        a.signal(signal.SIGTERM)
        await ends_within(a, 2)
        assert "Traceback" not in a.output(), a.output()
    assert (await counts(queue)).keys() <= {"waiting", "completed"}


async def test_h20_f_a_signal_while_redis_is_away_ends_the_process(start_process, queue):
    a = field_worker(start_process, "A", qlab_redis_url="redis://127.0.0.1:1")
    await until(lambda: "trying again until it works" in a.output(), limit=20)
    a.signal(signal.SIGTERM)
    assert (await ends_within(a, 2))[0] == 0
    assert "Traceback" not in a.output()
