"""What the broker knows about a job: everything it stores, except what only tells one run from another."""

from __future__ import annotations

import json
from typing import Any

from qlab.keys import Keys

_SETS = ("waiting", "delayed", "active", "completed", "failed")
_OF_ONE_RUN = {"birth", "token", "worker", "added_at", "processed_at", "finished_at"}


async def view(client: Any, keys: Keys, job_id: str) -> dict[str, object]:
    """The job's stored fields, the sets that it is in, and the names of its events so far, oldest first."""
    stored = await client.hgetall(keys.job(job_id))
    known: dict[str, object] = {
        name: _readable(value) for name, value in sorted(stored.items()) if name not in _OF_ONE_RUN
    }
    known["in"] = [name for name in _SETS if await _holds(client, keys[name], job_id, name)]
    entries = await client.xrange(keys["events"])
    known["events"] = [fields["event"] for _, fields in entries if fields["job"] == job_id]
    return known


async def _holds(client: Any, key: str, job_id: str, name: str) -> bool:
    if name == "waiting":
        return job_id in await client.lrange(key, 0, -1)
    if name == "delayed":
        return any(job_id == member.partition(":")[2] for member in await client.zrange(key, 0, -1))
    return await client.zscore(key, job_id) is not None


def _readable(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return value
