"""H06: a bulk is added as a whole, or says exactly what of it was."""

import asyncio

import pytest

from qlab import BulkAddError, PayloadError, Queue, RedisFull
from qlab.sync import SyncQueue
from tests.redis.queue_state import check_invariants, members, read_events


@pytest.fixture
async def small(private_redis_url, prefix):
    """A queue on a server of its own, and a way to leave it only so much memory (bytes, from now on)."""
    async with Queue("q", private_redis_url, prefix=prefix) as queue:

        async def leave(room):
            used = int((await queue.connection.client.info("memory"))["used_memory"])
            await queue.connection.command("CONFIG", "SET", "maxmemory", used + room if room else 0)

        yield queue, leave
        await leave(None)
        await check_invariants(queue.connection.client, queue.keys)


async def test_h06_a_the_bad_one_of_a_thousand_is_named_and_leaves_no_trace(queue, redis):
    entries = [("a", n, {"delay": n % 3, "priority": 1 + n % 2}) for n in range(1000)]
    entries[499] = ("a", {"bad": object()})
    with pytest.raises(PayloadError, match=r"job 499 of the bulk \(counted from 0\)"):
        await queue.add_bulk(entries)
    assert not any((await members(redis, queue.keys)).values())
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]
    assert await read_events(redis, queue.keys) == []


async def test_h06_b_a_thousand_that_do_not_fit_are_all_there_or_none(small):
    """All in one script: if there is room when it begins it also ends, else it does not begin."""
    queue, leave = small
    expected, refused = [], 0
    for room in [-1, *range(1_000_000, 4_000_000, 250_000)]:
        await leave(room)
        try:
            expected += [job.id for job in await queue.add_bulk([("a", "x" * 2000) for _ in range(1000)])]
        except RedisFull as error:
            refused += "is full and stored nothing: raise its maxmemory" in str(error)
        await leave(None)
        assert (await members(queue.connection.client, queue.keys))["waiting"] == expected
        assert len(await read_events(queue.connection.client, queue.keys)) == len(expected)
    assert refused >= 2
    assert len(expected) >= 2000
    assert refused + len(expected) // 1000 == 13


@pytest.mark.parametrize("kind", ["asyncio", "sync"])
async def test_h06_b_more_than_a_thousand_report_exactly_what_was_added(
    small, kind, private_redis_url, prefix
):
    queue, leave = small

    def add_sync(jobs):
        with SyncQueue("q", private_redis_url, prefix=prefix) as producer:
            return producer.add_bulk(jobs)

    jobs = [("a", "x" * 1000) for _ in range(5000)]
    await leave(2_500_000)
    with pytest.raises(BulkAddError, match=r"added \d000 of 5000 jobs, then: .*maxmemory") as caught:
        await (queue.add_bulk(jobs) if kind == "asyncio" else asyncio.to_thread(add_sync, jobs))
    await leave(None)
    waiting = (await members(queue.connection.client, queue.keys))["waiting"]
    assert waiting == caught.value.added_ids
    assert 0 < len(waiting) < 5000


async def test_h06_c_five_thousand_keep_their_order_and_no_command_is_slow(small):
    queue, _ = small
    await queue.connection.command("CONFIG", "SET", "slowlog-log-slower-than", 100_000)
    jobs = await queue.add_bulk([("a", n, {"attempts": 3}) for n in range(5000)])
    assert len({job.id for job in jobs}) == 5000
    assert (await members(queue.connection.client, queue.keys))["waiting"] == [job.id for job in jobs]
    assert await queue.connection.command("SLOWLOG", "LEN") == 0


async def test_h06_d_an_id_twice_in_one_bulk_is_one_job_and_the_entry_is_named(queue):
    jobs = await queue.add_bulk([("a", n, {"job_id": job_id}) for n, job_id in enumerate("xyxz")])
    assert [job.duplicate for job in jobs] == [False, False, True, False]
    assert [(job.id, job.data) for job in jobs] == [("x", 0), ("y", 1), ("x", 0), ("z", 3)]
    assert await queue.get_job_counts("waiting") == {"waiting": 3}
