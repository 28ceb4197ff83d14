"""H08, H11 and H12: when a job comes back, and in which order."""

import asyncio
import itertools
import json
import random

import pytest

from qlab import Backoff, JobFailed, RateLimitError
from tests.redis.queue_state import read_events, until

SLACK = 1500


async def starts(redis, queue):
    """For each job the times at which it was handed out, in ms on the server's clock."""
    found = {}
    for event in await read_events(redis, queue.keys, "active"):
        found.setdefault(event["job"], []).append(int(event["at"]))
    return found


def gaps(times):
    return [later - earlier for earlier, later in itertools.pairwise(times)]


async def has_counts(queue, **wanted):
    return await queue.get_job_counts(*wanted) == wanted


async def fails(job):
    raise RuntimeError("always")


async def run_until_failed(queue, start_worker, redis, backoff, attempts=4):
    """The gaps between the attempts of each of 200 jobs."""
    options = {"attempts": attempts, "backoff": backoff}
    jobs = await queue.add_bulk([("a", n, options) for n in range(200)])
    await start_worker(fails, concurrency=50)
    await until(lambda: has_counts(queue, failed=200), limit=30)
    for job in jobs:
        assert (await job.refresh()).record.backoff == backoff.encode()
        assert job.attempts_made == attempts
    return [gaps(times) for times in (await starts(redis, queue)).values()]


async def test_h08_without_jitter_no_gap_is_shorter_than_its_backoff(queue, start_worker, redis):
    backoff = Backoff.exponential(0.2)
    for found in await run_until_failed(queue, start_worker, redis, backoff):
        assert len(found) == 3
        for gap, due in zip(found, (200, 400, 800), strict=True):
            assert due <= gap <= due + SLACK


async def test_h08_jitter_stays_in_its_interval(queue, start_worker, redis):
    backoff = Backoff.exponential(0.2, jitter=0.5)
    for found in await run_until_failed(queue, start_worker, redis, backoff):
        for gap, due in zip(found, (200, 400, 800), strict=True):
            assert due / 2 <= gap <= due + SLACK


async def test_h08_jitter_spreads_the_retries_of_jobs_that_failed_together(queue, start_worker, redis):
    """Base 2 s, so that 200 jobs have 1,000 different milliseconds to choose from."""
    backoff = Backoff.exponential(2, jitter=0.5)
    found = await run_until_failed(queue, start_worker, redis, backoff, attempts=2)
    assert len({gap for (gap,) in found}) >= 100


async def test_h08_a_base_of_zero_is_immediate_whatever_the_jitter(queue, start_worker, redis):
    backoff = Backoff.exponential(0, jitter=0.5)
    await run_until_failed(queue, start_worker, redis, backoff)
    assert await read_events(redis, queue.keys, "delayed") == []


@pytest.mark.parametrize(("base", "ceiling"), [(0.2, 300), (1.0, 300), (600, 600), (1e9, 86_400)])
async def test_h08_a_late_attempt_waits_for_no_longer_than_the_ceiling(
    queue, start_worker, redis, base, ceiling
):
    job = await queue.add("a", attempts=100, backoff=Backoff.exponential(base))
    await redis.hset(queue.keys.job(job.id), "attempts_made", 59)
    await start_worker(fails)
    await until(lambda: has_counts(queue, delayed=1))
    due = (await redis.zrange(queue.keys["delayed"], 0, 0, withscores=True))[0][1]
    failed_at = int((await read_events(redis, queue.keys, "delayed"))[0]["at"])
    assert due - failed_at == ceiling * 1000
    assert (await job.refresh()).attempts_made == 60
    await job.remove()


async def order_of(queue, start_worker, handler, total):
    """The order in which the jobs' handlers start, one at a time."""
    order = []

    async def recorded(job):
        order.append(job.name)
        return await handler(job)

    await start_worker(recorded)
    await until(lambda: has_counts(queue, completed=total))
    return order


def failing(times, duration=0.0):
    async def handler(job):
        await asyncio.sleep(duration)
        if job.name == "A" and job.attempts_made < times:
            raise RuntimeError("not yet")

    return handler


async def add_abc(queue, **options):
    a = await queue.add("A", priority=1, **options)
    return a, await queue.add("B", priority=2), await queue.add("C", priority=2)


async def test_h11_a_a_retry_keeps_its_priority(queue, start_worker):
    await add_abc(queue, attempts=3)
    assert await order_of(queue, start_worker, failing(2), 3) == ["A", "A", "A", "B", "C"]


async def test_h11_b_a_retry_that_is_due_comes_before_what_is_less_urgent(queue, start_worker):
    await add_abc(queue, attempts=3, backoff=Backoff.fixed(0.05))
    assert await order_of(queue, start_worker, failing(2, duration=0.2), 3) == ["A", "B", "A", "C", "A"]


async def test_h11_c_a_recovered_job_keeps_its_priority(queue, start_worker, redis):
    """A's worker is gone: it never settles, and nobody renews."""
    a, *_ = await add_abc(queue)
    gone = await queue.connection.call(
        "settle_and_take", token="gone", worker="gone", lock=1, trip=1, want=1, count=0
    )
    assert json.loads(gone[2])[0][0] == a.id
    await queue.pause()
    order = []

    async def handler(job):
        order.append(job.name)

    await start_worker(handler, stalled_interval=0.05)
    await until(lambda: has_counts(queue, prioritized=3, active=0))
    await queue.resume()
    await until(lambda: has_counts(queue, completed=3))
    assert order == ["A", "B", "C"]
    assert (await a.refresh()).stalled_counter == 1


async def test_h11_d_a_replayed_job_keeps_its_priority(queue, start_worker):
    a = await queue.add("A", priority=1)
    order, broken = [], True

    async def handler(job):
        order.append(job.name)
        if broken:
            raise RuntimeError("broken")

    await start_worker(handler)
    with pytest.raises(JobFailed):
        await a.wait_until_finished(5)
    broken = False
    await queue.pause()
    for name in "BC":
        await queue.add(name, priority=2)
    await a.retry()
    await queue.resume()
    await until(lambda: has_counts(queue, completed=3))
    assert order == ["A", "A", "B", "C"]


async def test_h11_e_without_priorities_a_retry_is_the_next_one_every_time(queue, start_worker):
    order = []

    async def handler(job):
        order.append(job.name)
        if job.name == "A" and job.attempts_made == 0:
            raise RuntimeError("once")

    await start_worker(handler)
    for n in range(1, 51):
        await queue.pause()
        await queue.add("A", attempts=2)
        await queue.add_bulk([("B", None), ("C", None)])
        await queue.resume()
        await until(lambda n=n: has_counts(queue, completed=3 * n))
    assert order == ["A", "A", "B", "C"] * 50


async def test_h11_a_mix_with_retries_follows_the_one_documented_rank(queue, start_worker):
    """None first, then 1, then 2; who comes back is the next one of its own class."""
    ranks = [None, 1, 2] * 10
    random.Random(11).shuffle(ranks)
    for n, rank in enumerate(ranks):
        await queue.add(f"{rank}/{n}", priority=rank, attempts=2)
    order = []

    async def handler(job):
        order.append(job.name)
        if job.attempts_made == 0:
            raise RuntimeError("once")

    await start_worker(handler)
    await until(lambda: has_counts(queue, completed=30))
    by_rank = sorted(range(30), key=lambda n: (ranks[n] or 0, n))
    assert order == [f"{ranks[n]}/{n}" for n in by_rank for _ in range(2)]


@pytest.mark.parametrize("attempts", [1, 3])
async def test_h12_a_manual_limit_costs_no_attempt_and_no_backoff(queue, start_worker, redis, attempts):
    calls = []

    async def handler(job):
        calls.append(job.data)
        if len(calls) <= 2:
            await queue.rate_limit(0.5)
            raise RateLimitError
        return job.data

    jobs = [await queue.add("a", name, attempts=attempts, backoff=Backoff.exponential(10)) for name in "XYZ"]
    await start_worker(handler)
    assert [await job.wait_until_finished(8) for job in jobs] == ["X", "Y", "Z"]
    assert calls == ["X", "X", "X", "Y", "Z"]
    times = await starts(redis, queue)
    first, second, third = times[jobs[0].id]
    assert 500 <= second - first <= 500 + SLACK
    assert 500 <= third - second <= 500 + SLACK
    assert all(time >= third for job in jobs[1:] for time in times[job.id])
    await jobs[0].refresh()
    assert (jobs[0].state, jobs[0].attempts_made, jobs[0].stalled_counter) == ("completed", 1, 0)
    assert await read_events(redis, queue.keys, "failed", "retrying", "delayed") == []
    await _is_open_again(queue, redis)


async def _is_open_again(queue, redis):
    """Nobody has to end the limit."""
    new = await queue.add("a", "new")
    await new.wait_until_finished(5)
    await new.refresh()
    assert new.record.processed_at - new.record.added_at <= 500 + SLACK


async def test_h12_the_limit_holds_for_every_worker_of_the_queue(queue, start_worker, redis):
    async def handler(job):
        if job.name == "limits" and job.claim == 1:
            await queue.rate_limit(0.5)
            raise RateLimitError

    for name in "ABC":
        await start_worker(handler, name=name, concurrency=5)
    job = await queue.add("limits")
    await until(lambda: _limited(queue, redis))
    others = [await queue.add("a", n) for n in range(10)]
    for one in [job, *others]:
        await one.wait_until_finished(5)
    times = await starts(redis, queue)
    open_again = int(await redis.hget(queue.keys["meta"], "limited_until"))
    assert min(time for one in others for time in times[one.id]) >= open_again
    assert times[job.id][1] >= open_again


async def _limited(queue, redis):
    return await redis.hexists(queue.keys["meta"], "limited_until") and await has_counts(queue, waiting=1)
