"""A producer without asyncio, for Flask, Django, scripts and threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, ResponseError
from redis.retry import Retry

from qlab import payload, scripts
from qlab.connection import CONNECT_TIMEOUT, LOST, SOCKET_TIMEOUT, Connection, redis_url, refuses_for_now
from qlab.errors import BulkAddError
from qlab.new_job import NewJob, check_bulk, known_options
from qlab.queue import BULK


class Added(NamedTuple):
    """What an add did: the id of the job, and True if it was there already."""

    id: str
    duplicate: bool


class SyncQueue:
    """`add` and `add_bulk` as on Queue, with the same options and checks, on a blocking client.

    Safe to share between threads, and to make before a fork. Raises RedisUnavailable within a few seconds
    if Redis is away.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        prefix: str | None = None,
        max_data: int = payload.DEFAULT_LIMIT,
    ) -> None:
        self._connection = Connection(name, redis_url(url), prefix)
        self._max_data = max_data
        self._client = redis.Redis.from_url(
            redis_url(url), decode_responses=True, retry=Retry(NoBackoff(), 0),
            socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=CONNECT_TIMEOUT,
        )  # fmt: skip

    def add(self, name: str, data: Any = None, **options: Any) -> Added:
        """Add one job; see Queue.add for the options and errors."""
        return self._add([NewJob.make(name, data, self._max_data, **known_options(options))])[0]

    def add_bulk(self, jobs: Iterable[tuple[Any, ...]]) -> list[Added]:
        """Add many jobs; see Queue.add_bulk."""
        new = check_bulk(jobs, self._max_data)
        added: list[Added] = []
        for start in range(0, len(new), BULK):
            try:
                added += self._add(new[start : start + BULK])
            except Exception as error:
                if not added:
                    raise
                raise BulkAddError([one.id for one in added], len(new), error) from error
        return added

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, new: list[NewJob]) -> list[Added]:
        one = scripts.script("add_jobs")
        rest = [word for job in new for word in job.arguments()]
        words = one.arguments(self._connection.keys, {"now": ""}, rest)
        try:
            replies = self._run("EVALSHA", one.sha, *words)
        except NoScriptError:
            replies = self._run("EVAL", one.source, *words)
        return [
            Added(job.id, False) if isinstance(reply, str) else Added(reply[0], job.is_duplicate(reply[0]))
            for job, reply in zip(new, replies, strict=True)
        ]

    def _run(self, *words: Any) -> Any:
        try:
            return self._client.execute_command(*words)  # type: ignore[no-untyped-call]
        except LOST as error:
            raise self._connection.unavailable(error) from error
        except ResponseError as error:
            if not refuses_for_now(error):
                raise
            self._client.connection_pool.disconnect(inuse_connections=False)
            raise self._connection.unavailable(error) from error
