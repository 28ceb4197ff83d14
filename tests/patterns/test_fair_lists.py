"""A list for each tenant: turns, order, and nothing lost when a dispatcher dies."""

import asyncio
from typing import Any

import pytest
import redis as redis_sync
from redis.asyncio import Redis

from qlab.errors import PayloadError, RedisUnavailable
from qlab.patterns.fair_lists import Entry, FairLists
from qlab.patterns.redis_lock import RedisLock
from qlab.patterns.token_bucket import TokenBucket


class Sink:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def __call__(self, entry: Entry) -> None:
        await asyncio.sleep(0)
        self.entries.append(entry)

    @property
    def data(self) -> list[Any]:
        return [entry.data for entry in self.entries]


@pytest.fixture
def lists(redis: Redis, prefix: str) -> FairLists:
    return FairLists(redis, "mail", prefix=prefix)


async def ring_is_right(redis: Redis, prefix: str) -> None:
    tenants = await redis.lrange(f"{prefix}:fair:{{mail}}:ring", 0, -1)
    keys = [key async for key in redis.scan_iter(f"{prefix}:fair:*:list:*")]
    assert sorted(tenants) == sorted(key.rpartition(":")[2] for key in keys)


async def test_tenants_take_turns_and_each_keeps_its_order(lists, redis: Redis, prefix: str) -> None:
    await lists.push("a", [f"a{n}" for n in range(2500)])
    await lists.push("b", ["b0", "b1"])
    await lists.push("c", ["c0"])
    sink = Sink()
    assert await lists.dispatch(sink, 6) == 6
    assert sorted(sink.data[:3]) == ["a0", "b0", "c0"]
    assert sorted(sink.data[3:5]) == ["a1", "b1"]
    await ring_is_right(redis, prefix)
    assert await lists.dispatch(sink, 10_000) == 2503 - 6
    assert [data for data in sink.data if data[0] == "a"] == [f"a{n}" for n in range(2500)]
    assert len({entry.job_id for entry in sink.entries}) == 2503
    assert await lists.dispatch(sink, 1) == await lists.length("a") == 0
    await ring_is_right(redis, prefix)


async def test_an_entry_stays_until_it_is_published(lists, redis: Redis, prefix: str) -> None:
    await lists.push("a", [1, 2])
    seen: list[str] = []

    async def fails(entry: Entry) -> None:
        seen.append(entry.job_id)
        raise RuntimeError("no")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            await lists.dispatch(fails, 5)
    sink = Sink()
    await lists.dispatch(sink, 5)
    assert sink.data == [1, 2]
    assert seen == [sink.entries[0].job_id] * 2
    await ring_is_right(redis, prefix)


async def test_several_dispatchers_lose_nothing_and_repeat_only_under_the_same_id(
    lists, redis: Redis, prefix: str
) -> None:
    for tenant in ("a", "b", "c"):
        await lists.push(tenant, list(range(100)))
    sink = Sink()

    async def dispatcher() -> None:
        while any([await lists.length(tenant) for tenant in ("a", "b", "c")]):
            await lists.dispatch(sink, 10)

    async def late_pushes() -> None:
        for n in range(100, 150):
            await lists.push("b", [n])

    await asyncio.gather(dispatcher(), dispatcher(), dispatcher(), late_pushes())
    await dispatcher()
    first = {entry.job_id: entry for entry in sink.entries}
    assert all(first[entry.job_id] == entry for entry in sink.entries)
    assert len(first) == 350
    await ring_is_right(redis, prefix)


async def test_data_arrives_as_it_was_given(lists) -> None:
    given = [{"id": 130775545883395173, "e": [], "o": {}, "z": -0.0, "s": "é😀\x00", "": None}]
    await lists.push("a", given)
    sink = Sink()
    await lists.dispatch(sink, 1)
    assert repr(sink.data) == repr(given)


async def test_bad_input_is_refused(lists, redis: Redis, prefix: str) -> None:
    with pytest.raises(PayloadError, match="JSON"):
        await lists.push("a", [1, float("nan")])
    with pytest.raises(ValueError, match="tenant"):
        await lists.push("a:b", [1])
    with pytest.raises(ValueError, match="name of fair lists"):
        FairLists(redis, "", prefix=prefix)
    assert await lists.length("a") == 0
    async with Redis(host="127.0.0.1", port=1, retry=None) as away:
        with pytest.raises(RedisUnavailable, match="cannot reach Redis"):
            await FairLists(away, "mail").length("a")


async def test_a_tenant_whose_list_was_deleted_takes_no_more_turns(lists, redis: Redis, prefix: str) -> None:
    """Whoever removes a tenant deletes his list; the ring would name him for ever, and nobody else move."""
    for tenant in ("gone", "a", "left"):
        await lists.push(tenant, [1, 2])
    await redis.delete(f"{prefix}:fair:{{mail}}:list:gone", f"{prefix}:fair:{{mail}}:list:left")
    sink = Sink()
    async with asyncio.timeout(30):
        assert await lists.dispatch(sink, 10) == 2
        assert await lists.dispatch(sink, 10) == 0
    assert {entry.tenant for entry in sink.entries} == {"a"}
    await ring_is_right(redis, prefix)
    await lists.push("gone", [3])  # he comes back
    assert await lists.dispatch(sink, 10) == 1
    await ring_is_right(redis, prefix)


async def test_what_a_plain_function_published_is_published(lists, redis: Redis, prefix: str) -> None:
    await lists.push("a", [1, 2])
    seen: list[Any] = []
    assert await lists.dispatch(lambda entry: seen.append(entry.data), 10) == 2
    assert seen == [1, 2]
    assert await lists.length("a") == 0


@pytest.mark.parametrize("one", ["abc", b"abc", {"to": "a"}])
async def test_one_entry_is_no_list_of_entries(lists, one: Any) -> None:
    """It would be taken apart: a text into its letters, a dict into its keys."""
    with pytest.raises(ValueError, match=r"write \[entry\]"):
        await lists.push("a", one)
    assert await lists.length("a") == 0


def test_a_client_without_asyncio_is_refused(redis_url: str) -> None:
    """Its commands are carried out before anybody notices: a lock would stay, tokens would be gone."""
    with redis_sync.Redis.from_url(redis_url) as client:
        for make in (
            lambda: FairLists(client, "mail"),
            lambda: RedisLock(client, "night", ttl=1),
            lambda: TokenBucket(client, "mail", capacity=1, rate=1),
        ):
            with pytest.raises(TypeError, match=r"a client of redis\.asyncio.*not redis\.client\.Redis"):
                make()
