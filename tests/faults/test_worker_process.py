"""Worker processes that are killed, stopped and blocked: jobs run again, nothing is lost."""

import asyncio
import signal

import pytest

from qlab import JobFailed
from tests.redis.queue_state import read_events, until


async def started(ledger, name, count=1):
    """Wait until the process `name` has started `count` jobs."""
    await until(lambda: _lines(ledger, f"start {name}", count), limit=20)


async def _lines(ledger, word, count):
    return len(await ledger(word)) >= count


async def test_a_job_of_a_killed_process_runs_again_elsewhere(queue, ledger, start_process, redis):
    a = start_process("A")
    job = await queue.add("a", ["sleep", 60], attempts=3)
    await started(ledger, "A")
    a.kill()
    start_process("B")
    await started(ledger, "B")
    await job.refresh()
    assert (job.stalled_counter, job.attempts_made, job.claim) == (1, 0, 2)
    events = [(one["event"], one.get("worker")) for one in await read_events(redis, queue.keys)]
    assert events == [
        ("added", None), ("active", "A"), ("stalled", "A"), ("waiting", None), ("active", "B"),
    ]  # fmt: skip


async def test_redelivery_takes_at_most_the_lock_and_one_check(queue, ledger, start_process, redis):
    """One pass over the leases: the bound is lock + interval (0.6 s + 0.3 s), with slack for a busy day."""
    a, b = start_process("A"), start_process("B")
    await until(lambda: "connected" in a.output() and "connected" in b.output(), limit=20)
    await queue.add("a", ["sleep", 60])
    await until(lambda: _lines(ledger, "start", 1), limit=20)
    owner = (await ledger("start"))[0].split()[1]
    killed, other = (a, "B") if owner == "A" else (b, "A")
    killed.kill()
    seconds, micros = await redis.time()
    await started(ledger, other)
    taken = int((await read_events(redis, queue.keys, "active"))[1]["at"])
    assert taken - (seconds * 1000 + micros // 1000) <= 900 + 1500


async def test_h02_a_blocked_loop_loses_its_lock_and_is_told(queue, ledger, start_process, redis):
    """The chapter's run: A blocks its loop, B takes over, the stall is counted, A's result is refused."""
    a = start_process("A")
    job = await queue.add("a", ["block", {"who": "A", "seconds": 2.5}])
    await started(ledger, "A")
    b = start_process("B")
    assert await job.wait_until_finished(20) == "B"
    await until(lambda: "lock lost" in a.output())
    await job.refresh()
    assert (job.stalled_counter, job.attempts_made, job.claim) == (1, 1, 2)
    assert (await ledger("start")) == [f"start A {job.id}", f"start B {job.id}"]
    assert "the event loop was blocked" in a.output()
    assert len(await read_events(redis, queue.keys, "completed")) == 1
    assert b.process.poll() is None


async def test_h02_when_both_block_the_second_stall_fails_the_job(queue, ledger, start_process):
    start_process("A")
    job = await queue.add("a", ["block", {"who": "AB", "seconds": 2.5}], attempts=3)
    await started(ledger, "A")
    start_process("B")
    with pytest.raises(JobFailed, match="job stalled more than allowable limit"):
        await job.wait_until_finished(20)
    assert ((await job.refresh()).stalled_counter, job.claim, job.attempts_made) == (2, 2, 0)


async def test_h02_a_plain_function_that_sleeps_does_not_lose_its_lock(queue, start_process):
    start_process("A", spec="jobs:plain_worker")
    job = await queue.add("a", {"seconds": 1.5})
    assert await job.wait_until_finished(20) == "A"
    assert ((await job.refresh()).stalled_counter, job.claim) == (0, 1)


async def test_h01_a_stopped_process_that_goes_on_is_refused_and_keeps_working(
    queue, ledger, start_process, redis
):
    a = start_process("A")
    job = await queue.add("a", ["sleep", 1.5])
    await started(ledger, "A")
    a.signal(signal.SIGSTOP)
    start_process("B")
    await started(ledger, "B")
    a.signal(signal.SIGCONT)
    assert await job.wait_until_finished(20) == "B"
    await until(lambda: "lock lost" in a.output())
    await job.refresh()
    assert (job.state, job.failed_reason, job.attempts_made, job.stalled_counter) == ("completed", None, 1, 1)
    assert len(await read_events(redis, queue.keys, "completed", "failed")) == 1
    jobs = [await queue.add("a", ["sleep", 0.5]) for _ in range(4)]
    assert "A" in [await one.wait_until_finished(20) for one in jobs]


async def test_a_job_that_kills_every_process_ends_failed(queue, start_process):
    job = await queue.add("a", ["die", 0], attempts=10)
    waiting = asyncio.create_task(job.wait_until_finished(40))
    names = iter(range(100))
    process = None
    while not waiting.done():
        if process is None or process.process.poll() is not None:
            process = start_process(f"p{next(names)}")
        await asyncio.sleep(0.05)
    with pytest.raises(JobFailed, match="job stalled more than allowable limit"):
        await waiting
    assert ((await job.refresh()).claim, job.stalled_counter) == (2, 2)


async def test_a_job_that_kills_its_process_does_not_take_its_neighbours_down(queue, start_process, redis):
    """The poison is taken with 9 others, twice at most, and with the limit of one stall only it fails."""
    jobs = await queue.add_bulk([("a", ["die", 0] if n == 4 else ["sleep", 0.2]) for n in range(30)])
    names, processes = iter(range(100)), []
    while sum((await queue.get_job_counts("completed", "failed")).values()) < len(jobs):
        if not processes or processes[-1].process.poll() is not None:
            processes.append(start_process(f"p{next(names)}", concurrency=10))
        await asyncio.sleep(0.05)
    assert len(processes) <= 3
    states = [(await job.refresh()).state for job in jobs]
    assert states == ["failed" if n == 4 else "completed" for n in range(30)]
    assert jobs[4].failed_reason == "job stalled more than allowable limit"
    assert [one["job"] for one in await read_events(redis, queue.keys, "failed")] == [jobs[4].id]
    assert max(job.stalled_counter for job in jobs if job is not jobs[4]) == 1


async def test_h20_a_terminated_process_finishes_its_job_first(queue, ledger, start_process):
    a = start_process("A")
    job = await queue.add("a", ["sleep", 1.5])
    await started(ledger, "A")
    start_process("B")
    a.signal(signal.SIGTERM)
    assert await job.wait_until_finished(20) == "A"
    assert await asyncio.to_thread(a.process.wait, 10) == 0
    assert ((await job.refresh()).stalled_counter, job.claim) == (0, 1)
    assert "Traceback" not in a.output()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_h20_a_second_signal_gives_the_job_back_at_once(queue, ledger, start_process, second):
    a = start_process("A", lock=30, check=30)
    job = await queue.add("a", ["sleep", 60], attempts=2)
    await started(ledger, "A")
    a.signal(signal.SIGTERM)
    await until(lambda: "finishing 1 running job" in a.output())
    a.signal(second)
    assert await asyncio.to_thread(a.process.wait, 3) == 0
    await job.refresh()
    assert (job.state, job.attempts_made, job.stalled_counter) == ("waiting", 0, 0)
    assert "Traceback" not in a.output()


async def test_h20_an_idle_process_ends_at_once(start_process, queue):
    a = start_process("A")
    await until(lambda: "connected" in a.output(), limit=20)
    a.signal(signal.SIGTERM)
    assert await asyncio.to_thread(a.process.wait, 2) == 0


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("jobs", "write module:attribute"),
        ("nowhere:worker", "no module 'nowhere'"),
        ("jobs:nobody", "no attribute 'nobody'"),
        ("jobs:not_a_worker", "is a int, not a qlab.Worker"),
        ("../jobs:worker", "write module:attribute"),
        ("jobs:with_a_bad_option", ": concurrency must be a whole number from 1 to 100,000, not 0"),
    ],
)
async def test_a_wrong_place_for_the_worker_is_one_sentence(start_process, spec, sentence):
    a = start_process("A", spec=spec)
    assert await asyncio.to_thread(a.process.wait, 20) == 2
    assert sentence in a.output()
    assert "Traceback" not in a.output()


async def test_a_worker_that_cannot_go_on_says_so_once_and_ends(start_process, queue, redis):
    """Not the silence of a process that runs, has no errors and never takes a job."""
    await redis.hset(queue.keys["meta"], "schema", "99")
    a = start_process("A")
    assert await asyncio.to_thread(a.process.wait, 20) == 1
    assert a.output().count("cannot go on: queue 'q' was written with key schema 99") == 1
    assert "Traceback" not in a.output()
