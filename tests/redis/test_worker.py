"""What a worker does with the jobs: results, failures, retries, retention, both kinds of handler."""

import asyncio
import itertools
import threading

import pytest

from qlab import Backoff, JobFailed, JobGone, Keep, PayloadError, UnrecoverableError
from tests.redis.queue_state import members, read_events, until


async def test_a_job_completes_with_what_the_handler_returned(queue, start_worker):
    async def handler(job):
        return {"got": job.data, "attempts": job.attempts_made, "state": job.state}

    await start_worker(handler, name="w1")
    job = await queue.add("a", [1])
    assert await job.wait_until_finished(5) == {"got": [1], "attempts": 0, "state": "active"}
    await job.refresh()
    assert (job.state, job.attempts_made, job.claim, job.record.worker) == ("completed", 1, 1, "w1")
    assert job.added_at <= job.finished_at


async def test_a_plain_function_runs_in_a_thread_and_the_loop_stays_free(queue, start_worker):
    release = threading.Event()

    def handler(job):
        if job.data == "slow":
            assert release.wait(5)
        return threading.current_thread().name

    await start_worker(handler, concurrency=2)
    slow, fast = await queue.add("a", "slow"), await queue.add("a", "fast")
    assert (await fast.wait_until_finished(5)).startswith("qlab-job")
    release.set()
    assert await slow.wait_until_finished(5)


async def test_a_failed_job_keeps_its_reason_and_its_stack(queue, start_worker):
    async def handler(job):
        raise ValueError("no such user")

    await start_worker(handler)
    job = await queue.add("a")
    with pytest.raises(JobFailed, match="ValueError: no such user"):
        await job.wait_until_finished(5)
    await job.refresh()
    assert (job.state, job.attempts_made, job.failed_reason) == ("failed", 1, "ValueError: no such user")
    assert "in handler" in job.record.stacktrace


async def test_attempts_count_the_first_run_and_a_success_ends_them(queue, start_worker, redis):
    runs = []

    async def handler(job):
        runs.append(job.attempts_made)
        if len(runs) < 3:
            raise RuntimeError("not yet")
        return "done"

    await start_worker(handler)
    job = await queue.add("a", attempts=5)
    assert await job.wait_until_finished(5) == "done"
    assert runs == [0, 1, 2]
    await job.refresh()
    assert (job.attempts_made, job.failed_reason) == (3, None)
    assert len(await read_events(redis, queue.keys, "retrying")) == 2


async def test_h08_retries_wait_out_their_backoff(queue, start_worker, redis):
    async def handler(job):
        raise RuntimeError("always")

    await start_worker(handler)
    job = await queue.add("a", attempts=3, backoff=Backoff.exponential(0.1))
    with pytest.raises(JobFailed):
        await job.wait_until_finished(5)
    starts = [int(event["at"]) for event in await read_events(redis, queue.keys, "active")]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert len(gaps) == 2
    assert gaps[0] >= 100
    assert gaps[1] >= 200
    await job.refresh()
    assert job.record.backoff == "exponential:100:0:300000"


async def test_an_unrecoverable_error_ends_the_job_at_once(queue, start_worker):
    async def handler(job):
        raise UnrecoverableError("malformed address")

    await start_worker(handler)
    job = await queue.add("a", attempts=5)
    with pytest.raises(JobFailed, match="malformed address"):
        await job.wait_until_finished(5)
    assert (await job.refresh()).attempts_made == 1


async def test_a_retry_without_delay_goes_ahead_of_jobs_added_later(queue, start_worker):
    order = []

    async def handler(job):
        order.append(job.data)
        if order == ["first"]:
            raise RuntimeError("once")

    jobs = [await queue.add("a", "first", attempts=2), await queue.add("a", "second")]
    await start_worker(handler)
    for job in jobs:
        await job.wait_until_finished(5)
    assert order == ["first", "first", "second"]


async def test_a_result_that_is_not_json_fails_the_job_without_another_run(queue, start_worker):
    runs = []

    async def handler(job):
        runs.append(1)
        return object()

    await start_worker(handler)
    job = await queue.add("a", attempts=3)
    with pytest.raises(JobFailed, match="result is not strict JSON"):
        await job.wait_until_finished(5)
    assert runs == [1]


async def test_concurrency_is_the_most_that_runs_at_once(queue, start_worker):
    running, most = 0, 0

    async def handler(job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    jobs = await queue.add_bulk([("a", n) for n in range(20)])
    await start_worker(handler, concurrency=3)
    for job in jobs:
        await job.wait_until_finished(5)
    assert most == 3


async def test_a_worker_takes_no_more_than_it_can_run(queue, start_worker, redis):
    release = asyncio.Event()

    async def handler(job):
        await release.wait()

    await queue.add_bulk([("a", n) for n in range(10)])
    await start_worker(handler, concurrency=3)
    await until(lambda: _active(queue, 3))
    assert await queue.get_job_counts("active", "waiting") == {"active": 3, "waiting": 7}
    release.set()
    await until(lambda: _all_done(queue, 10))


async def _all_done(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def test_a_delayed_job_never_starts_before_its_time(queue, start_worker, redis):
    async def handler(job):
        return None

    await start_worker(handler)
    jobs = [await queue.add("a", n, delay=n / 1000) for n in (300, 1, 0.4, 100)]
    for job in jobs:
        await job.wait_until_finished(5)
        await job.refresh()
        assert job.record.processed_at - job.record.added_at >= job.data
    starts = [event["job"] for event in await read_events(redis, queue.keys, "active")]
    assert starts.index(jobs[3].id) < starts.index(jobs[0].id)


async def test_h09_jobs_added_to_idle_workers_all_start_at_once(queue, start_worker):
    async def handler(job):
        await asyncio.sleep(0.2)

    for n in range(4):
        await start_worker(handler, concurrency=5, name=f"w{n}")
    await until(lambda: _wake_is_empty(queue))
    jobs = await queue.add_bulk([("a", n) for n in range(20)])
    await until(lambda: _active(queue, 20), limit=0.5)
    for job in jobs:
        await job.wait_until_finished(5)


async def _active(queue, least):
    return (await queue.get_job_counts("active"))["active"] >= least


async def _wake_is_empty(queue):
    return await queue.connection.command("LLEN", queue.keys["wake"]) == 0


async def test_h09_a_delayed_job_does_not_hide_an_immediate_one(queue, start_worker):
    async def handler(job):
        return job.data

    await start_worker(handler)
    for round_ in range(50):
        if round_ % 2:
            await queue.add("later", delay=30, job_id=f"later-{round_}")
        job = await queue.add("now", round_)
        if not round_ % 2:
            await queue.add("later", delay=30, job_id=f"later-{round_}")
        assert await job.wait_until_finished(0.5) == round_


async def test_retention_keeps_the_latest_and_results_of_removed_jobs_for_a_while(queue, start_worker, redis):
    async def handler(job):
        return job.data

    await start_worker(handler)
    jobs = [await queue.add("a", n, remove_on_complete=2) for n in range(5)]
    assert [await job.wait_until_finished(5) for job in jobs] == [0, 1, 2, 3, 4]
    kept = (await members(redis, queue.keys))["completed"]
    assert len(kept) == 2
    for job in jobs:
        assert await job.wait_until_finished(5) == job.data
        if job.id not in kept:
            with pytest.raises(JobGone):
                await job.refresh()


async def test_retention_by_age_is_applied_when_another_job_ends(queue, start_worker, redis):
    async def handler(job):
        return None

    await start_worker(handler)
    rule = Keep(age=0.05)
    old = await queue.add("a", remove_on_complete=rule)
    await old.wait_until_finished(5)
    await until(lambda: _older_than(redis, queue, old.id, 50))
    assert (await members(redis, queue.keys))["completed"] == [old.id]
    new = await queue.add("a", remove_on_complete=rule)
    await new.wait_until_finished(5)
    assert (await members(redis, queue.keys))["completed"] == [new.id]


async def _older_than(redis, queue, job_id, ms):
    seconds, micros = await redis.time()
    return seconds * 1000 + micros // 1000 - await redis.zscore(queue.keys["completed"], job_id) > ms


async def test_failed_jobs_are_kept_unless_told_otherwise(queue, start_worker):
    async def handler(job):
        raise RuntimeError("no")

    await start_worker(handler)
    kept, gone = await queue.add("a"), await queue.add("a", remove_on_fail=True)
    for job in (kept, gone):
        with pytest.raises(JobFailed, match="RuntimeError: no"):
            await job.wait_until_finished(5)
    assert await queue.get_job_counts("failed") == {"failed": 1}
    assert await queue.get_job(gone.id) is None


async def test_progress_is_written_by_the_holder_only(queue, start_worker):
    async def handler(job):
        await job.update_progress({"done": 0.5})
        assert job.progress == {"done": 0.5}
        return (await queue.get_job(job.id)).progress

    await start_worker(handler)
    job = await queue.add("a")
    assert await job.wait_until_finished(5) == {"done": 0.5}
    for write in (job.update_progress, job.update_data, job.log):
        with pytest.raises(RuntimeError, match="only the holder"):
            await write("x")


async def test_the_data_of_the_next_attempt_can_be_changed(queue, start_worker):
    async def handler(job):
        if job.attempts_made == 0:
            with pytest.raises(PayloadError):
                await job.update_data({1: 2})
            await job.update_data({"step": 2})
            assert job.data == {"step": 2}
            raise RuntimeError("once")
        return job.data

    await start_worker(handler)
    job = await queue.add("a", {"step": 1}, attempts=2)
    assert await job.wait_until_finished(5) == {"step": 2}
    assert (await job.refresh()).data == {"step": 2}


async def test_a_log_is_kept_through_all_attempts_and_bounded(queue, start_worker):
    async def handler(job):
        for n in range(1500 if job.data == "much" else 2):
            await job.log(f"attempt {job.attempts_made}, line {n}, khoá \ud800")
        if job.attempts_made == 0:
            raise RuntimeError("once")

    await start_worker(handler)
    job = await queue.add("a", attempts=2)
    await job.wait_until_finished(5)
    lines = [f"attempt {attempt}, line {n}, khoá \\ud800" for attempt in (0, 1) for n in (0, 1)]
    assert (await job.refresh()).log_lines == lines
    much = await queue.add("a", "much", attempts=2)
    await much.wait_until_finished(20)
    await much.refresh()
    assert len(much.record.log.encode()) <= 16_000
    assert len(much.log_lines) > 300
    assert much.log_lines[-1] == "attempt 1, line 1499, khoá \\ud800"
    assert much.log_lines[0].startswith("attempt 1, line ")


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__(code)


class Circular(Exception):
    pass


def _circle():
    a, b = Circular("a"), Circular("b")
    a.__cause__, b.__cause__ = b, a
    return a


@pytest.mark.parametrize(
    "error",
    [
        KeywordOnly(code=1), RuntimeError(threading.Lock()), ValueError("x" * 10_000_000),
        ValueError("\x00\ud800"),
        ExceptionGroup("many", [ValueError(1), TypeError(2), KeyError(3)]), _circle(), SystemExit(0),
        KeyboardInterrupt(), StopIteration(3), asyncio.CancelledError("mine"), GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_h07_h21_whatever_is_raised_fails_the_job_and_not_the_worker(queue, start_worker, error, kind):
    async def on_loop(job):
        if job.data == "bad":
            raise error
        return "fine"

    def in_thread(job):
        if job.data == "bad":
            raise error
        return "fine"

    await start_worker(on_loop if kind == "async" else in_thread)
    bad, good = await queue.add("a", "bad"), await queue.add("a", "good")
    with pytest.raises(JobFailed):
        await bad.wait_until_finished(5)
    assert await good.wait_until_finished(5) == "fine"
    await bad.refresh()
    names = {"StopIteration", "RuntimeError"} if isinstance(error, StopIteration) else {type(error).__name__}
    assert bad.failed_reason.partition(":")[0] in names
    assert len(bad.failed_reason.encode()) < 16_500
    assert (await queue.get_job_counts("active"))["active"] == 0


async def test_an_inner_task_that_was_cancelled_is_a_failure_and_is_retried(queue, start_worker):
    runs = []

    async def handler(job):
        runs.append(1)
        inner = asyncio.create_task(asyncio.sleep(10))
        inner.cancel()
        await inner

    await start_worker(handler)
    job = await queue.add("a", attempts=2)
    with pytest.raises(JobFailed, match="CancelledError"):
        await job.wait_until_finished(5)
    assert len(runs) == 2
