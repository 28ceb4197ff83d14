"""The limiter belongs to the queue: all workers together, whoever was told of it."""

import asyncio

import pytest

from qlab import Limiter, Queue, Worker
from tests.redis.queue_state import check_invariants, until


async def starts(redis, queue):
    entries = await redis.xrange(queue.keys["events"])
    return [int(fields["at"]) for _, fields in entries if fields["event"] == "active"]


def windows(times, length):
    """How many starts fall into each window; each begins with the first start after the last one ended."""
    counts, begin = [], None
    for at in times:
        if begin is None or at >= begin + length:
            begin = at
            counts.append(0)
        counts[-1] += 1
    return counts


async def echo(job):
    return job.data


async def test_h12_nine_jobs_two_workers_three_per_window(queue, start_worker, redis):
    """The chapter's figure, 3, 3, 3, with a window of 400 ms for its 1,000; one worker was not told."""
    await queue.add_bulk([("a", n) for n in range(9)])
    await start_worker(echo, concurrency=5, limiter=Limiter(3, 0.4), name="told")
    await start_worker(echo, concurrency=5, name="not-told")
    await until(lambda: _completed(queue, 9))
    assert windows(await starts(redis, queue), 400) == [3, 3, 3]


async def _completed(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def test_h12_limited_jobs_keep_their_order_and_their_attempts(queue, start_worker, redis):
    order = []

    async def handler(job):
        order.append((job.data, job.attempts_made, job.claim))

    await queue.set_global_rate_limit(2, 0.1)
    await queue.add_bulk([("a", n) for n in range(6)])
    await start_worker(handler)
    await until(lambda: _completed(queue, 6))
    assert order == [(n, 0, 1) for n in range(6)]
    assert max(windows(await starts(redis, queue), 100)) == 2


async def test_the_window_is_fixed_so_its_edge_may_see_twice_the_limit(redis_url, prefix, redis):
    """Said in the documentation, shown here: two windows of three that touch."""
    now = [1_900_000_000.0]
    async with Queue("q", redis_url, prefix=prefix, clock=lambda: now[0]) as queue:
        worker = Worker("q", echo, redis_url, prefix=prefix, clock=lambda: now[0], concurrency=10)
        await queue.set_global_rate_limit(3, 1)
        await queue.add("a", 0)
        assert await worker.step() == 1
        now[0] += 0.999
        await queue.add_bulk([("a", n) for n in range(1, 9)])
        assert await worker.step() == 2
        assert await worker.step() == 0
        now[0] += 0.001
        assert await worker.step() == 3
        assert await worker.step() == 0
        await worker.close(timeout=0)
        await check_invariants(redis, queue.keys)


async def test_a_removed_limit_lets_everything_go(queue, start_worker):
    await queue.set_global_rate_limit(1, 60)
    await queue.add_bulk([("a", n) for n in range(3)])
    await start_worker(echo)
    await until(lambda: _completed(queue, 1))
    await queue.remove_global_rate_limit()
    await until(lambda: _completed(queue, 3), limit=2)


async def test_h12_a_changed_limit_counts_at_once_though_the_window_is_used_up(queue, start_worker):
    """Somebody wrote hours for seconds: the queue must not stay shut for hours."""
    await queue.set_global_rate_limit(1, 3600)
    await queue.add_bulk([("a", n) for n in range(3)])
    await start_worker(echo)
    await until(lambda: _completed(queue, 1))
    await queue.set_global_rate_limit(2, 3600)
    await until(lambda: _completed(queue, 2), limit=2)
    await queue.set_global_rate_limit(1, 0.1)
    await until(lambda: _completed(queue, 3), limit=2)


async def test_h12_a_changed_limit_does_not_end_a_limit_by_hand(queue, start_worker):
    await queue.rate_limit(60)
    await queue.set_global_rate_limit(9, 0.1)
    await queue.add("a")
    worker = await start_worker(echo)
    await until(lambda: worker.healthy)
    assert (await queue.get_job_counts("waiting", "active"))["waiting"] == 1


async def test_an_idle_limited_queue_does_not_make_workers_spin(queue, start_worker):
    await queue.set_global_rate_limit(1, 60)
    await queue.add_bulk([("a", n) for n in range(3)])
    worker = await start_worker(echo, concurrency=5)
    await until(lambda: _completed(queue, 1))
    before = worker._pump._number
    await asyncio.sleep(0.3)
    assert worker._pump._number - before <= 2
    await queue.remove_global_rate_limit()


@pytest.mark.parametrize("rule", [(0, 1), (1.5, 1), (True, 1), (1, 0), (1, -1), (1, None)])
def test_a_limiter_without_sense_is_refused(rule):
    with pytest.raises(ValueError, match=r"max|duration"):
        Limiter(*rule)


def test_a_limiter_needs_both_parts_and_the_right_type():
    with pytest.raises(TypeError):
        Limiter(3)
    with pytest.raises(TypeError, match="limiter must be a Limiter"):
        Worker("q", echo, limiter={"max": 3})
