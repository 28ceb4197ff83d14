"""Follow what happens in a queue, from any process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from qlab.connection import Connection, RedisLike
from qlab.events import follow, last_position

_EVENT_ID = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the event stream. `at` is in milliseconds since the epoch, on the server's clock."""

    id: str
    name: str
    job_id: str
    at: int
    details: dict[str, str]


class QueueEvents:
    """`async for event in events`: added, active, completed, failed, retrying, delayed, waiting,
    waiting-children, stalled, progress, removed and lock-lost, in order, each once.

    Begins after what has happened so far; `since` is an event id to begin after ("0" for all that is kept:
    the latest 10,000 or so; who falls behind by more misses what is cut). The stream carries no payloads:
    read the job for those. While Redis is away the iteration waits and goes on where it was.

    Raises ValueError for a `since` that is no event id.
    """

    def __init__(
        self, name: str, redis: RedisLike = None, *, prefix: str | None = None, since: str | None = None
    ) -> None:
        if since is not None and not (isinstance(since, str) and _EVENT_ID.fullmatch(since)):
            raise ValueError(
                f"since must be the id of an event, as in '1718000000000-0', or '0', not {since!r}"
            )
        self._connection = Connection(name, redis, prefix)
        self._client = self._connection.open_client()
        self._position = since

    async def start(self) -> Self:
        """Connect and fix the place to begin at. Raises RedisUnavailable."""
        if self._position is None:
            self._position = await last_position(self._connection)
        return self

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        position = self._position or (await self.start())._position or "0"
        async for entry_id, fields in follow(self._connection, self._client, position):
            self._position = entry_id
            known = {"event", "job", "at"}
            details = {key: value for key, value in fields.items() if key not in known}
            yield Event(entry_id, fields["event"], fields["job"], int(fields["at"]), details)
