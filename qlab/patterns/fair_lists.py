"""A list for each tenant in front of one queue, emptied in turns: nobody waits behind another's 50,000 jobs.

    lists = FairLists(redis, "mail")
    await lists.push("tenant-a", [{"to": "..."}, ...])

    async def publish(entry): await queue.add("mail", entry.data, job_id=entry.job_id)

    while True:                            # the dispatcher keeps the queue short; the lists may be long
        waiting = (await queue.get_job_counts("waiting"))["waiting"]
        if not await lists.dispatch(publish, 20 - waiting): await asyncio.sleep(0.05)

Each turn gives every tenant that has work one job. An entry leaves its list only after `publish` returned, so
a dispatcher may die at any time and several may run: the same entry is then published again under the same
`job_id`, which the queue ignores while it has that job. At least once, as everywhere.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from qlab import payload
from qlab.patterns.names import check_client, check_name, prefix_of
from qlab.patterns.scripts import call, explained
from qlab.tasks import outcome_of

__all__ = ["Entry", "FairLists"]

BULK = 1000
"""Entries put in by one script."""

TURN = 50
"""Tenants served at the same time."""


@dataclass(frozen=True)
class Entry:
    """One piece of work of a tenant. `job_id` is the same each time it is published."""

    tenant: str
    job_id: str
    data: Any


class FairLists:
    """Lists called `name`. redis: an asyncio client; prefix: as for a Queue.

    Raises ValueError for a bad name, TypeError for a client without asyncio.
    """

    def __init__(self, redis: Redis, name: str, *, prefix: str | None = None) -> None:
        check_client(redis)
        self._redis, self._name = redis, check_name("name of fair lists", name)
        self._base = f"{prefix_of(prefix)}:fair:{{{name}}}:"  # braces: one slot of a cluster for all keys

    async def push(self, tenant: str, data: Sequence[Any]) -> None:
        """Put work at the end of this tenant's list. All or none up to 1,000; more go in by the thousand.

        Raises PayloadError or ValueError before anything is sent, RedisUnavailable.
        """
        if isinstance(data, str | bytes | Mapping):
            raise ValueError(f"data is a list of entries, not one {type(data).__name__}; write [entry]")
        keys = {"list": self._list(tenant), "ring": self._base + "ring", "count": self._base + "count"}
        texts = [payload.encode(one) for one in data]
        for start in range(0, len(texts), BULK):
            await call(self._redis, "fair_push", keys, texts[start : start + BULK], tenant=tenant)

    async def dispatch(self, publish: Callable[[Entry], Awaitable[Any]], most: int) -> int:
        """Publish up to `most` entries, the tenants by turns; return how many. 0 or less does nothing.

        An error of `publish` goes to the caller; the entry stays first in its list.
        """
        moved = 0
        while moved < most:
            ring = {"ring": self._base + "ring"}
            turns = await call(self._redis, "fair_next", ring, most=min(TURN, most - moved))
            if not turns:
                break
            moves = [self._move_one(_text(one), publish) for one in turns]
            for result in await asyncio.gather(*moves, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result  # only now: all the others have ended too
                moved += result
        return moved

    async def length(self, tenant: str) -> int:
        """Entries in this tenant's list."""
        with explained():
            return int(await self._redis.llen(self._list(tenant)))

    async def _move_one(self, tenant: str, publish: Callable[[Entry], Awaitable[Any]]) -> int:
        key = self._list(tenant)
        with explained():
            found = await self._redis.lindex(key, 0)
        keys = {"list": key, "ring": self._base + "ring"}
        if found is None:  # another dispatcher was faster, or the list was deleted: then the turn goes too
            return int(await call(self._redis, "fair_done", keys, tenant=tenant, entry=""))
        number, _, text = _text(found).partition(" ")
        await outcome_of(publish, Entry(tenant, f"fair-{self._name}-{number}", json.loads(text)))
        return int(await call(self._redis, "fair_done", keys, tenant=tenant, entry=found))

    def _list(self, tenant: str) -> str:
        return self._base + "list:" + check_name("tenant", tenant)


def _text(reply: str | bytes) -> str:
    return reply.decode() if isinstance(reply, bytes) else reply
