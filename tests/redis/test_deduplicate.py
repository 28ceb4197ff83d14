"""Deduplication (debounce): one add for each key within its time to live."""

import pytest

from qlab import Deduplicate
from tests.redis.queue_state import until


async def test_adds_with_the_same_key_add_one_job_within_the_time_to_live(queue):
    once = Deduplicate("user-7", 60)
    first = await queue.add("sync", 1, deduplicate=once)
    second = await queue.add("sync", 2, deduplicate=once)
    other = await queue.add("sync", 3, deduplicate=Deduplicate("user-8", 60))
    assert (first.duplicate, second.duplicate, other.duplicate) == (False, True, False)
    assert (second.id, second.data) == (first.id, 1)
    assert await queue.get_job_counts("waiting") == {"waiting": 2}


async def test_after_the_time_to_live_the_key_is_free(queue):
    once = Deduplicate("k", 0.05)
    await queue.add("sync", 1, deduplicate=once)

    async def added():
        return not (await queue.add("sync", 2, deduplicate=once)).duplicate

    await until(added)


async def test_the_key_stays_taken_when_the_job_is_gone(queue):
    once = Deduplicate("k", 60)
    first = await queue.add("sync", 1, deduplicate=once)
    await first.remove()
    again = await queue.add("sync", 2, deduplicate=once)
    assert again.duplicate
    assert again.id == first.id


@pytest.mark.parametrize(("key", "ttl"), [("a:b", 1), ("", 1), ("k", 0), ("k", -1)])
def test_a_bad_key_or_time_is_refused(key, ttl):
    with pytest.raises(ValueError, match=r"deduplication key|ttl"):
        Deduplicate(key, ttl)
