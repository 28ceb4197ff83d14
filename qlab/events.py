"""Waiting for a job: read the queue's event stream once for all waiters, and never miss an end.

The order makes it safe: a waiter registers first, then looks at the job, then waits. What ended before is
seen by looking; what ends later is seen in the stream. The stream is only a hint: the answer is always
read from the job, or from the results of removed jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from qlab import payload
from qlab.errors import JobFailed, JobGone, RedisUnavailable
from qlab.tasks import end, pause

if TYPE_CHECKING:
    from qlab.connection import Connection

log = logging.getLogger("qlab.events")
BLOCK_MS = 3000
LOOK_AGAIN = 5.0
"""Seconds after which a waiter looks at its job without having heard of it: the stream may have been cut."""

FIRST_LOOK = 1.0
"""Seconds that a waiter has to look at its job once, however short its own limit is."""

ENDS = {"completed", "failed", "removed"}


class Listener:
    """One reader of the event stream for all who wait on this connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._client: Any = None
        self.closings = 0
        """How often it was closed."""

    async def listen(self, job_id: str) -> asyncio.Event:
        """An event that is set whenever the job may have ended from now on."""
        heard = asyncio.Event()
        if self._task is None or self._task.done():
            self._client = self._client or self._connection.open_client()
            position = await last_position(self._connection)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._read(position), name="qlab-events")
        self._waiters[job_id].add(heard)
        return heard

    def forget(self, job_id: str, heard: asyncio.Event) -> None:
        """The waiter is done."""
        self._waiters[job_id].discard(heard)
        if not self._waiters[job_id]:
            del self._waiters[job_id]

    async def close(self) -> None:
        """Stop reading, and let those who still wait know."""
        self.closings += 1
        for heard in [one for waiters in self._waiters.values() for one in waiters]:
            heard.set()
        if self._task is not None:
            await end([self._task])
        if self._client is not None:
            await self._client.aclose()

    async def _read(self, position: str) -> None:
        waiters = self._waiters  # without any it stops at the next pause of the stream: nobody would be told
        async for _, fields in follow(self._connection, self._client, position, lambda: bool(waiters)):
            if fields.get("event") in ENDS:
                for heard in waiters.get(fields["job"], ()):
                    heard.set()


async def last_position(connection: Connection) -> str:
    """The id of the latest event, to read on from."""
    last = await connection.command("XREVRANGE", connection.keys["events"], "+", "-", "COUNT", 1)
    return str(last[0][0]) if last else "0-0"


async def follow(
    connection: Connection, client: Any, position: str, needed: Callable[[], bool] = lambda: True
) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """Every event after `position` while needed; when Redis is away it waits and goes on where it was."""
    failures = 0
    while needed():
        try:
            entries = await read(connection, client, position)
            failures = 0
        except RedisUnavailable as error:
            failures += 1
            if failures == 1:
                log.warning("following events: %s; trying again until it works", error)
            await pause(failures)
            continue
        for entry in entries:
            position = entry[0]
            yield entry


async def read(connection: Connection, client: Any, position: str) -> list[tuple[str, dict[str, str]]]:
    """The events after `position`, at most 1,000; waits up to 3 s for the first one."""
    words = ("XREAD", "COUNT", 1000, "BLOCK", BLOCK_MS, "STREAMS", connection.keys["events"], position)
    return _entries(await connection.command(*words, on=client))


def _entries(reply: Any) -> list[tuple[str, dict[str, str]]]:
    """The entries of XREAD on one stream, whichever shape the protocol version gives."""
    if not reply:
        return []
    entries = next(iter(reply.values())) if isinstance(reply, dict) else reply[0][1]
    if entries and isinstance(entries[0][0], list | tuple):
        entries = entries[0]
    return [
        (entry_id, fields if isinstance(fields, dict) else _pairs(fields)) for entry_id, fields in entries
    ]


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def wait(connection: Connection, job_id: str, birth: str, timeout: float | None) -> Any:
    """The result of the job born at `birth`; see Job.wait_until_finished."""
    listener, loop = connection.listener, asyncio.get_running_loop()
    deadline, closings = None if timeout is None else loop.time() + timeout, listener.closings
    try:
        async with asyncio.timeout(None if timeout is None else max(timeout, FIRST_LOOK)) as clock:
            heard = await listener.listen(job_id)
            try:
                while True:
                    heard.clear()
                    state, text = await _look(connection, job_id, birth)
                    if state == "completed":
                        return payload.decode(text)
                    if state == "failed":
                        raise JobFailed(job_id, text)
                    if state == "gone":
                        raise JobGone(job_id)
                    clock.reschedule(deadline)
                    await _set_within(heard, LOOK_AGAIN)
                    if listener.closings > closings:
                        raise RuntimeError(f"the queue was closed while job {job_id} was waited for")
            finally:
                listener.forget(job_id, heard)
    except TimeoutError:
        raise TimeoutError(f"job {job_id} did not finish within {timeout:g} s; it goes on") from None


async def _set_within(heard: asyncio.Event, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            await heard.wait()
    except TimeoutError:
        pass


async def _look(connection: Connection, job_id: str, birth: str) -> tuple[str, str]:
    """(completed, JSON), (failed, reason), (gone, '') or (unfinished, '')."""
    fields = ("birth", "state", "return_value", "failed_reason")
    born, state, value, reason = await connection.command("HMGET", connection.keys.job(job_id), *fields)
    if born == birth:
        if state == "completed":
            return state, value
        return (state, reason) if state == "failed" else ("unfinished", "")
    kept = await connection.command("HGET", connection.keys["results"], birth)
    if kept is None:
        kept = await connection.command("HGET", connection.keys["results_old"], birth)
    state, _, text = (kept or "gone:").partition(":")
    return state, text
