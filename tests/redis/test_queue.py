"""Adding jobs and looking at them."""

import pytest

from qlab import Backoff, BulkAddError, Keep, PayloadError, Queue
from tests.redis.queue_state import check_invariants, clocks_apart, members, read_events


async def test_a_job_waits_with_everything_that_was_given(queue):
    job = await queue.add(
        "charge", {"order": 7}, attempts=3, backoff=Backoff.fixed(2), remove_on_complete=Keep(age=60, count=5)
    )
    found = await queue.get_job(job.id)
    assert abs(found.record.added_at - job.record.added_at) <= clocks_apart()
    assert found.record._replace(added_at=job.record.added_at) == job.record
    assert (found.name, found.data, found.state) == ("charge", {"order": 7}, "waiting")
    assert (found.record.attempts, found.record.backoff) == (3, "fixed:2000:0:300000")
    assert found.record.keep_completed == "60000:5"


async def test_jobs_wait_in_the_order_in_which_they_were_added(queue, redis):
    jobs = [await queue.add("n", n) for n in range(3)]
    jobs += await queue.add_bulk([("n", 3), ("n", 4, {"attempts": 2})])
    assert (await members(redis, queue.keys))["waiting"] == [job.id for job in jobs]


async def test_counts_are_by_state_and_all_states_by_default(queue):
    await queue.add("now")
    await queue.add("later", delay=60)
    assert await queue.get_job_counts() == {
        "waiting": 1,
        "prioritized": 0,
        "active": 0,
        "delayed": 1,
        "waiting-children": 0,
        "completed": 0,
        "failed": 0,
    }
    assert await queue.get_job_counts("delayed") == {"delayed": 1}


async def test_an_unknown_state_is_refused(queue):
    with pytest.raises(ValueError, match="unknown job state 'running'; the states are waiting, prioritized"):
        await queue.get_job_counts("running")


async def test_there_is_no_job_with_an_unknown_id(queue):
    assert await queue.get_job("nobody") is None
    with pytest.raises(ValueError, match="job id"):
        await queue.get_job("a:b")


async def test_a_job_id_that_is_in_the_queue_adds_nothing_and_says_so(queue):
    first = await queue.add("a", 1, job_id="order-1")
    second = await queue.add("b", 2, job_id="order-1", delay=5)
    assert (first.duplicate, second.duplicate) == (False, True)
    assert (second.name, second.data) == ("a", 1)
    assert await queue.get_job_counts("waiting", "delayed") == {"waiting": 1, "delayed": 0}


async def test_h06_the_same_id_twice_in_a_bulk_is_one_job_and_the_second_is_reported(queue):
    jobs = await queue.add_bulk([("a", 1, {"job_id": "x"}), ("a", 2, {"job_id": "x"})])
    assert [job.duplicate for job in jobs] == [False, True]
    assert await queue.get_job_counts("waiting") == {"waiting": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0}, {"attempts": True}, {"backoff": 5}, {"delay": -1}, {"delay": float("nan")},
        {"job_id": "a:b"}, {"job_id": 5}, {"remove_on_complete": -1},
    ],
)  # fmt: skip
async def test_a_bad_option_stores_nothing(queue, redis, options):
    with pytest.raises(ValueError, match=r"attempts|backoff|delay|job id|count"):
        await queue.add("a", 1, **options)
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]


@pytest.mark.parametrize("name", ["", None, 5, "a\x00b", "\ud800", "x" * 16_001])
async def test_a_name_that_would_not_arrive_as_it_is_is_refused(queue, redis, name):
    with pytest.raises(ValueError, match="job name must be a string of 1 to 16,000 characters"):
        await queue.add(name)
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]


@pytest.mark.parametrize("data", [float("nan"), {1: 2}, (1,), b"", "x" * 70_000])
async def test_h19_a_bad_payload_stores_nothing(queue, redis, data):
    with pytest.raises(PayloadError):
        await queue.add("a", data)
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]


async def test_h06_a_bad_job_in_a_bulk_is_named_and_nothing_is_added(queue):
    entries = [("n", n) for n in range(1000)]
    entries[500] = ("n", {1, 2})
    with pytest.raises(PayloadError, match="job 500 of the bulk"):
        await queue.add_bulk(entries)
    with pytest.raises(TypeError, match=r"job 1 of the bulk.*unknown"):
        await queue.add_bulk([("n", 1), ("n", 1, {"unknown": 1})])
    assert sum((await queue.get_job_counts()).values()) == 0
    assert await queue.connection.command("XLEN", queue.keys["events"]) == 0


@pytest.mark.parametrize(
    "entry", ["ab", 1, (), ("n",), ("n", 1, {}, 4), ("n", 1, None), ("n", 1, 2), ("n", 1, {1: 2}), {"n": 1}]
)
async def test_h06_a_malformed_entry_of_a_bulk_is_named_in_our_words(queue, entry):
    with pytest.raises((ValueError, TypeError), match=r"^job 1 of the bulk .*: (write|options|unknown)"):
        await queue.add_bulk([("n", 1), entry])
    assert sum((await queue.get_job_counts()).values()) == 0


@pytest.mark.parametrize("jobs", [None, 5])
async def test_h06_a_bulk_that_is_no_list_is_refused_in_our_words(queue, jobs):
    with pytest.raises(TypeError, match="jobs must be a list of"):
        await queue.add_bulk(jobs)


async def test_h06_five_thousand_jobs_keep_their_order(queue, redis):
    jobs = await queue.add_bulk([("n", n) for n in range(5000)])
    assert (await members(redis, queue.keys))["waiting"] == [job.id for job in jobs]
    assert len({job.id for job in jobs}) == 5000


async def test_h06_a_bulk_that_stops_part_way_reports_what_was_added(private_redis_url, prefix):
    """The server runs out of memory: the jobs present are exactly those that the error reports."""
    async with Queue("q", private_redis_url, prefix=prefix) as queue:
        used = int((await queue.connection.client.info("memory"))["used_memory"])
        await queue.connection.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await queue.connection.command("CONFIG", "SET", "maxmemory", used + 3_000_000)
        with pytest.raises(BulkAddError) as caught:
            await queue.add_bulk([("n", "x" * 500) for _ in range(20_000)])
        await queue.connection.command("CONFIG", "SET", "maxmemory", 0)
        waiting = (await members(queue.connection.client, queue.keys))["waiting"]
        assert waiting == caught.value.added_ids
        assert 0 < len(waiting) < 20_000
        assert len(waiting) % 1000 == 0
        await check_invariants(queue.connection.client, queue.keys)


async def test_each_add_is_an_event_without_its_payload(queue, redis):
    job = await queue.add("a", {"secret": "x"}, delay=60)
    events = await read_events(redis, queue.keys)
    assert [(one["event"], one["job"]) for one in events] == [("added", job.id), ("delayed", job.id)]
    assert all(set(one) == {"event", "job", "at"} for one in events)


async def test_queues_with_other_names_or_prefixes_do_not_see_each_other(queue, redis_url, prefix):
    await queue.add("a", job_id="x")
    async with (
        Queue("other", redis_url, prefix=prefix) as other,
        Queue("q", redis_url, prefix=prefix + ":2") as third,
    ):
        assert await other.get_job("x") is None
        assert await third.get_job("x") is None


async def test_mutating_the_data_after_the_add_changes_nothing(queue):
    data = {"n": [1]}
    job = await queue.add("a", data)
    data["n"].append(2)
    assert (await queue.get_job(job.id)).data == {"n": [1]}
    assert job.data == {"n": [1]}
