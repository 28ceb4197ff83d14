"""The producer's side of a queue: add jobs, look at them, count them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from qlab import payload, retention
from qlab.connection import Clock, Connection, RedisLike
from qlab.errors import BulkAddError, PayloadError
from qlab.job import STATES, Job, JobRecord, read_record
from qlab.keys import check_job_id
from qlab.retention import Keep
from qlab.retry import Backoff, Seconds, milliseconds

BULK = 1000
"""Jobs added by one script: all of them or none."""

_SETS = {"waiting": "LLEN", "active": "ZCARD", "delayed": "ZCARD", "completed": "ZCARD", "failed": "ZCARD"}


class Queue:
    """A named list of work in Redis.

    `redis` is a URL or an asyncio client, None for QLAB_REDIS_URL or Redis on this machine. `prefix` keeps
    queues of different programs apart (default QLAB_PREFIX, else "qlab"). `max_data` is the size limit of
    one payload in bytes. `clock` (seconds since the epoch) replaces the server's clock in tests.

    Raises ValueError for a name with ':', braces or spaces.
    """

    def __init__(
        self,
        name: str,
        redis: RedisLike = None,
        *,
        prefix: str | None = None,
        max_data: int = payload.DEFAULT_LIMIT,
        clock: Clock | None = None,
    ) -> None:
        self.connection = Connection(name, redis, prefix, clock)
        self.keys = self.connection.keys
        self.name = name
        self._max_data = max_data

    async def start(self) -> Self:
        """Connect now instead of at the first command. Raises RedisUnavailable if that is not possible."""
        try:
            await self.connection.check()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close the connections. Jobs are not touched."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def add(
        self,
        name: str,
        data: Any = None,
        *,
        job_id: str | None = None,
        delay: Seconds = 0,
        attempts: int = 1,
        backoff: Backoff | None = None,
        remove_on_complete: bool | int | Keep | None = None,
        remove_on_fail: bool | int | Keep | None = None,
    ) -> Job:
        """Add one job and return a handle on it.

        `data` is strict JSON. `attempts` counts the first run too; `backoff` is the wait between two of
        them, none if not given. `delay` is the least time before it may start. A `job_id` that is already
        in the queue adds nothing: the handle's `duplicate` is then True and it shows the job that is there.
        It is no idempotency key: once that job is removed, the id is free again.

        Raises PayloadError or ValueError for a bad job, RedisUnavailable at once if Redis is away.
        """
        new = _NewJob.make(
            name, data, self._max_data, job_id=job_id, delay=delay, attempts=attempts, backoff=backoff,
            remove_on_complete=remove_on_complete, remove_on_fail=remove_on_fail,
        )  # fmt: skip
        return (await self._add([new]))[0]

    async def add_bulk(self, jobs: Iterable[tuple[Any, ...]]) -> list[Job]:
        """Add many jobs, each `(name, data)` or `(name, data, options of add as a dict)`, in this order.

        All are checked before any is sent: a bad one raises PayloadError or ValueError that names its
        index (from 0), and nothing is added. Up to 1,000 are added all or none; more go in batches of
        1,000, and if a later batch fails, BulkAddError has the `added_ids`.
        """
        new = []
        for index, entry in enumerate(jobs):
            try:
                name, data, *options = entry
                new.append(_NewJob.make(name, data, self._max_data, **(options[0] if options else {})))
            except PayloadError as error:
                raise PayloadError(f"job {index} of the bulk (counted from 0): {error}") from None
            except (ValueError, TypeError) as error:
                raise type(error)(f"job {index} of the bulk (counted from 0): {error}") from None
        added: list[Job] = []
        for start in range(0, len(new), BULK):
            try:
                added += await self._add(new[start : start + BULK])
            except Exception as error:
                if not added:
                    raise
                raise BulkAddError([job.id for job in added], len(new), error) from error
        return added

    async def _add(self, new: list[_NewJob]) -> list[Job]:
        words: list[Any] = []
        for one in new:
            words += one.arguments()
        replies = await self.connection.call("add_jobs", words)
        jobs = []
        for one, (birth, duplicate) in zip(new, replies, strict=True):
            # An id made here that exists already is our own command, repeated by something in between.
            if duplicate and one.own_id:
                record = await read_record(self.connection, one.id) or one.record(birth)
                jobs.append(Job(record, self.connection, duplicate=True))
            else:
                jobs.append(Job(one.record(birth), self.connection))
        return jobs

    async def get_job(self, job_id: str) -> Job | None:
        """A handle on the job as it is now, None if there is no such job."""
        record = await read_record(self.connection, check_job_id(job_id))
        return None if record is None else Job(record, self.connection)

    async def get_job_counts(self, *states: str) -> dict[str, int]:
        """How many jobs are in each of the states (all if none is named), as of one moment.

        Raises ValueError for a state that does not exist.
        """
        wanted = states or STATES
        for state in wanted:
            if state not in _SETS:
                raise ValueError(f"unknown job state {state!r}; the states are {', '.join(STATES)}")
        counts = await self.connection.transaction([(_SETS[state], self.keys[state]) for state in wanted])
        return dict(zip(wanted, counts, strict=True))


@dataclass(frozen=True, slots=True)
class _NewJob:
    """A job that has been checked but not yet added."""

    id: str
    own_id: bool
    name: str
    data: str
    delay: int
    options: dict[str, Any]

    @classmethod
    def make(
        cls,
        name: str,
        data: Any,
        max_data: int,
        *,
        job_id: str | None = None,
        delay: Seconds = 0,
        attempts: int = 1,
        backoff: Backoff | None = None,
        remove_on_complete: bool | int | Keep | None = None,
        remove_on_fail: bool | int | Keep | None = None,
    ) -> _NewJob:
        if not isinstance(name, str) or not name:
            raise ValueError(f"job name must be a string that is not empty, not {name!r}")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ValueError(
                f"attempts must be a whole number of at least 1 (the first run counts), not {attempts!r}"
            )
        if backoff is not None and not isinstance(backoff, Backoff):
            raise ValueError(
                f"backoff must be made with Backoff.fixed or Backoff.exponential, not {backoff!r}"
            )
        options = {
            "attempts": attempts if attempts != 1 else None,
            "backoff": backoff.encode() if backoff else None,
            "keep_completed": retention.encode(remove_on_complete),
            "keep_failed": retention.encode(remove_on_fail),
        }
        return cls(
            id=secrets.token_hex(8) if job_id is None else check_job_id(job_id),
            own_id=job_id is not None,
            name=payload.clean_text(name),
            data=payload.encode(data, limit=max_data),
            delay=milliseconds(delay, "delay"),
            options={key: value for key, value in options.items() if value is not None},
        )

    def arguments(self) -> list[Any]:
        """As the script add_jobs reads it."""
        fields = ["name", self.name, "data", self.data]
        for option in self.options.items():
            fields += option
        return [self.id, self.delay, len(fields), *fields]

    def record(self, birth: str) -> JobRecord:
        """What the job's hash holds right after the add."""
        state = "delayed" if self.delay else "waiting"
        added_at = int(birth.partition("-")[0])
        return JobRecord(
            self.id, self.name, self.data, state=state, birth=birth, added_at=added_at, **self.options
        )
