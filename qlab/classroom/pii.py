"""Look for personal data where it should not be: everything that a queue keeps in Redis about its jobs."""

from __future__ import annotations

import re
from typing import Any

from qlab.queue import Queue

EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


async def emails_in_redis(client: Any, queue: Queue) -> dict[str, list[str]]:
    """For each kind of job in the queue (by its name) its stored fields that hold an e-mail address."""
    found: dict[str, set[str]] = {}
    async for key in client.scan_iter(match=queue.keys.job("*"), count=1000):
        stored = await client.hgetall(key)
        fields = found.setdefault(stored["name"], set())
        fields |= {field for field, value in stored.items() if EMAIL.search(value)}
    return {name: sorted(fields) for name, fields in sorted(found.items())}
