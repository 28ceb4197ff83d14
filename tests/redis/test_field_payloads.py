"""H19: what a handler gets is what the producer gave, type by type, whatever happened on the way."""

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from qlab import Backoff, DelayedError, JobFailed, PayloadError, RateLimitError
from qlab.sync import SyncQueue
from tests.redis.queue_state import until


def deep(levels):
    value = {"end": []}
    for n in range(levels):
        value = [value] if n % 2 else {"down": value}
    return value


DATA = {
    "id": 130775545883395173, "big": 9007199254740993, "e": [], "o": {}, "n": None, "f": 0.1, "z": -0.0,
    "s": "é😀", "a:b": 1, "": 2, "deep": deep(60), "t": [True, 1, 1.0], "long": 10**400,
    "controls": "\x00\x1f\u2028\\\"", "e+": 1e22, "minus": -9223372036854775809,
}  # fmt: skip


def same(a, b):
    """Equal, of the same type, at each place; -0.0 is not 0.0, and keys keep their order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def test_the_comparison_itself_is_strict():
    assert same(DATA, json.loads(json.dumps(DATA)))
    assert not any(
        same(a, b)
        for a, b in [([], {}), (1, 1.0), (1, True), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    )


@pytest.fixture
async def seen(queue, start_worker):
    """What the handler got, one entry for each start; what it does depends on the job's name."""
    got, claims = [], {}

    async def handler(job):
        got.append(job.data)
        claims[job.id] = claims.get(job.id, 0) + 1
        if claims[job.id] == 1:
            if job.name == "retry":
                raise RuntimeError("once")
            if job.name == "limit":
                await queue.rate_limit(0.02)
                raise RateLimitError
            if job.name == "put-off":
                raise DelayedError(0.02)
            if job.name == "dead":
                raise RuntimeError("for good")
        await job.update_progress(job.data)
        return job.data

    await start_worker(handler)
    return got


async def check(queue, job, seen, runs):
    """As the handler saw it each time, as the result, and as anybody reads it afterwards."""
    assert same(await job.wait_until_finished(5), DATA)
    assert len(seen) == runs
    assert all(same(data, DATA) for data in seen)
    found = await queue.get_job(job.id)
    assert all(same(value, DATA) for value in (found.data, found.return_value, found.progress))


@pytest.mark.parametrize(
    ("name", "options", "runs"),
    [
        ("add", {}, 1),
        ("delay", {"delay": 0.02}, 1),
        ("priority", {"priority": 3}, 1),
        ("retry", {"attempts": 2}, 2),
        ("retry", {"attempts": 2, "backoff": Backoff.fixed(0.02)}, 2),
        ("limit", {}, 2),
        ("put-off", {}, 2),
    ],
)
async def test_h19_the_payload_is_the_same_after(queue, seen, name, options, runs):
    await check(queue, await queue.add(name, DATA, **options), seen, runs)


async def test_h19_the_payload_is_the_same_in_a_bulk_and_from_a_producer_without_asyncio(
    queue, seen, redis_url, prefix
):
    for job in await queue.add_bulk([("a", DATA), ("a", DATA, {"delay": 0.02})]):
        assert same(await job.wait_until_finished(5), DATA)
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        added = [producer.add("a", DATA), *producer.add_bulk([("a", DATA)])]
    for one in added:
        assert same(await (await queue.get_job(one.id)).wait_until_finished(5), DATA)
    assert len(seen) == 4
    assert all(same(data, DATA) for data in seen)


async def test_h19_the_payload_is_the_same_after_a_stall(queue, start_worker):
    job = await queue.add("a", DATA)
    await queue.connection.call(
        "settle_and_take", token="gone", worker="gone", lock=1, trip=1, want=1, count=0
    )

    async def handler(job):
        return job.data

    await start_worker(handler, stalled_interval=0.05)
    assert same(await job.wait_until_finished(5), DATA)
    assert same((await job.refresh()).data, DATA)
    assert job.stalled_counter == 1


async def test_h19_the_payload_is_the_same_in_a_dead_letter_and_after_its_replay(queue, seen):
    job = await queue.add("dead", DATA)
    with pytest.raises(JobFailed):
        await job.wait_until_finished(5)
    dead = await queue.get_job(job.id)
    assert same(dead.data, DATA)
    await dead.retry()
    await check(queue, job, seen, 2)


def circular():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "bad",
    [
        float("nan"), float("inf"), Decimal("1.5"), datetime(2026, 1, 1, tzinfo=UTC), b"x", {1}, {1: 2},
        {None: 1}, {True: 1}, {1.5: 1}, (1, 2), "\ud800", {"\udfff": 1}, circular(), deep(100_000),
        10**5000, object(),
    ],
    ids=lambda bad: type(bad).__name__,
)  # fmt: skip
async def test_h19_what_is_not_json_is_refused_at_add_and_uses_up_nothing(queue, redis, bad):
    for data in (bad, {"inside": [bad]}):
        with pytest.raises(PayloadError, match=r"^data ") as caught:
            await queue.add("a", data, job_id="mine", priority=1)
        assert "\n" not in str(caught.value)
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]
    assert not (await queue.add("a", 1, job_id="mine")).duplicate


async def test_h19_changing_the_data_after_the_add_changes_nothing(queue, start_worker):
    release = asyncio.Event()

    async def handler(job):
        job.data["n"].append("by the handler")
        await release.wait()
        return job.data["n"]

    data = {"n": [1]}
    job = await queue.add("a", data)
    data["n"].append(2)
    await start_worker(handler)
    await until(lambda: _active(queue))
    assert (await queue.get_job(job.id)).data == {"n": [1]}
    release.set()
    assert await job.wait_until_finished(5) == [1, "by the handler"]
    assert (await queue.get_job(job.id)).data == {"n": [1]}


async def _active(queue):
    return (await queue.get_job_counts("active"))["active"]
