"""QueueEvents: everything that happens, in order, each once."""

import asyncio
import contextlib

import pytest

from qlab import JobFailed, QueueEvents, RedisUnavailable, events


async def collect(events, total):
    found = []
    async with asyncio.timeout(10):
        async for event in events:
            found.append(event)
            if len(found) == total:
                break
    return found


async def test_the_life_of_a_job_is_told_in_order(queue, start_worker, redis_url, prefix):
    async def handler(job):
        raise RuntimeError("no")

    await start_worker(handler, name="A")
    async with QueueEvents("q", redis_url, prefix=prefix) as events:
        job = await queue.add("a", attempts=2)
        with pytest.raises(JobFailed):
            await job.wait_until_finished(5)
        found = await collect(events, 6)
    assert [event.name for event in found] == ["added", "active", "retrying", "waiting", "active", "failed"]
    assert {event.job_id for event in found} == {job.id}
    assert found[1].details == {"worker": "A", "claim": "1"}
    assert [event.at for event in found] == sorted(event.at for event in found)


async def test_reading_begins_after_what_has_happened_or_after_an_event(queue, redis_url, prefix):
    jobs = [await queue.add("a") for _ in range(3)]
    async with QueueEvents("q", redis_url, prefix=prefix) as events:
        late = await queue.add("a")
        assert [event.job_id for event in await collect(events, 1)] == [late.id]
    async with QueueEvents("q", redis_url, prefix=prefix, since="0") as events:
        everything = await collect(events, 4)
    assert [event.job_id for event in everything] == [*(job.id for job in jobs), late.id]
    async with QueueEvents("q", redis_url, prefix=prefix, since=everything[1].id) as events:
        assert [event.job_id for event in await collect(events, 2)] == [jobs[2].id, late.id]


@pytest.mark.parametrize("since", ["$", "", "yesterday", "12-x", 0])
async def test_a_place_to_begin_that_is_none_is_refused(redis_url, since):
    with pytest.raises(ValueError, match="since must be the id of an event"):
        QueueEvents("q", redis_url, since=since)


async def test_h18_the_stream_is_capped_where_events_are_made(queue, redis):
    for _ in range(12):
        await queue.add_bulk([("a", "x" * 100) for _ in range(1000)])
    assert await redis.xlen(queue.keys["events"]) <= 10_150  # whole nodes of 100, at every 50th entry


async def test_following_goes_on_where_it_was_after_an_outage(queue, monkeypatch, caplog):
    """Two tries fail; nothing is missed, nothing told twice, and the log says it once."""
    positions, real = [], events.read

    async def shaky(connection, client, position):
        positions.append(position)
        if len(positions) in (2, 3):
            raise RedisUnavailable("gone")
        return await real(connection, client, position)

    monkeypatch.setattr(events, "read", shaky)
    async with contextlib.aclosing(
        events.follow(queue.connection, queue.connection.client, await events.last_position(queue.connection))
    ) as followed:
        for name in ("first", "second"):
            job = await queue.add(name)
            entry = await anext(followed)
            assert (entry[1]["event"], entry[1]["job"]) == ("added", job.id)
    assert positions[1] == positions[2] == positions[3]
    assert caplog.text.count("trying again until it works") == 1
