"""Look at a queue from outside: its sets, its invariants, its events."""

import asyncio
import os
import time

from qlab.keys import Keys

SETS = {
    "waiting": "LIST",
    "prioritized": "ZSET",
    "delayed": "ZSET",
    "active": "ZSET",
    "waiting-children": "ZSET",
    "completed": "ZSET",
    "failed": "ZSET",
}


def clocks_apart() -> int:
    """Milliseconds between two looks at the clock in a script: a real server looks once, fakeredis twice."""
    return 1000 if os.environ["QLAB_REDIS_KIND"] == "fakeredis" else 0


async def members(redis, keys: Keys) -> dict[str, list[str]]:
    """The job ids in each set."""
    found = {}
    for state, kind in SETS.items():
        command = redis.lrange if kind == "LIST" else redis.zrange
        found[state] = [member.rpartition(":")[2] for member in await command(keys[state], 0, -1)]
    return found


async def check_invariants(redis, keys: Keys) -> None:
    """Each job is in exactly one set, the one that its hash names; it has a token exactly while active."""
    places: dict[str, list[str]] = {}
    for state, ids in (await members(redis, keys)).items():
        for job_id in ids:
            places.setdefault(job_id, []).append(state)
    hashes = {
        key.rpartition(":")[2]: await redis.hgetall(key) async for key in redis.scan_iter(keys.job("*"))
    }
    assert set(places) == set(hashes)
    for job_id, stored in hashes.items():
        assert places[job_id] == [stored["state"]], job_id
        assert bool(stored.get("token")) == (stored["state"] == "active"), job_id
        assert ("place" in stored) == (stored["state"] in ("delayed", "prioritized")), job_id


async def until(condition, limit: float = 10.0):
    """Wait until `condition()`, which may be async, is true; return its value."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        value = await value if asyncio.iscoroutine(value) else value
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {limit} s in vain for {condition}"
        await asyncio.sleep(0.01)


async def read_events(redis, keys: Keys, *names: str) -> list[dict[str, str]]:
    """The queue's events so far, all or those named."""
    entries = await redis.xrange(keys["events"])
    return [fields for _, fields in entries if not names or fields["event"] in names]
