"""The producer's side of a queue: add jobs, look at them, count them, and govern the whole queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from qlab import limiter, payload, schedule
from qlab.connection import Clock, Connection, RedisLike
from qlab.errors import BulkAddError, QueueBusy
from qlab.job import STATES, Job, JobRecord, read_record
from qlab.keys import check_job_id
from qlab.new_job import Deduplicate, NewJob, check_bulk, known_options
from qlab.retention import Keep
from qlab.retry import Backoff, Seconds, milliseconds

BULK = 1000
"""Jobs added or removed by one script: all of them or none."""


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
        priority: int | None = None,
        attempts: int = 1,
        backoff: Backoff | None = None,
        timeout: Seconds | None = None,
        deduplicate: Deduplicate | None = None,
        remove_on_complete: bool | int | Keep | None = None,
        remove_on_fail: bool | int | Keep | None = None,
    ) -> Job:
        """Add one job and return a handle on it.

        `data` is strict JSON. `attempts` counts the first run too; `backoff` is the wait between two of
        them, none if not given; `timeout` the limit of one attempt (a plain `def` goes on in its thread,
        unheard). `delay` is the least time before it may start. `priority` is 1 (most urgent) to 2,097,152;
        without one a job comes before all that have one. A `job_id` that is already in the queue adds
        nothing: the handle's `duplicate` is then True and it shows the job that is there; so it is with
        `deduplicate`. Neither is an idempotency key: once that job is removed, the id is free again.
        `remove_on_complete` and `remove_on_fail` say what is kept when it ends, of all that ended so: True
        removes this one at once, a number or Keep trims them to that, False trims none; see Keep.

        Raises PayloadError or ValueError for a bad job, RedisUnavailable at once if Redis is away.
        """
        new = NewJob.make(
            name, data, self._max_data, job_id=job_id, delay=delay, priority=priority, attempts=attempts,
            backoff=backoff, timeout=timeout, deduplicate=deduplicate,
            remove_on_complete=remove_on_complete, remove_on_fail=remove_on_fail,
        )  # fmt: skip
        return (await self._add([new]))[0]

    async def add_bulk(self, jobs: Iterable[tuple[Any, ...]]) -> list[Job]:
        """Add many jobs, each `(name, data)` or `(name, data, options of add as a dict)`, in this order.

        All are checked before any is sent: a bad one raises PayloadError or ValueError that names its
        index (from 0), and nothing is added. Up to 1,000 are added all or none; more go in batches of
        1,000, and if a later batch fails, BulkAddError has the `added_ids`.
        """
        new = check_bulk(jobs, self._max_data)
        added: list[Job] = []
        for start in range(0, len(new), BULK):
            try:
                added += await self._add(new[start : start + BULK])
            except Exception as error:
                if not added:
                    raise
                raise BulkAddError([job.id for job in added], len(new), error) from error
        return added

    async def _add(self, new: list[NewJob]) -> list[Job]:
        words = [word for one in new for word in one.arguments()]
        replies = await self.connection.call("add_jobs", words)
        now, jobs = self.connection.now(), []
        for one, reply in zip(new, replies, strict=True):
            added = isinstance(reply, str)
            job_id, birth = (one.id, reply) if added else reply
            if not added and one.is_duplicate(job_id):
                record = await read_record(self.connection, job_id)
                record = record or JobRecord(job_id, one.name, one.data, birth=birth)
                jobs.append(Job(record, self.connection, duplicate=True))
            else:
                jobs.append(Job(one.record(birth, now), self.connection))
        return jobs

    async def get_job(self, job_id: str) -> Job | None:
        """A handle on the job as it is now, None if there is no such job."""
        record = await read_record(self.connection, check_job_id(job_id))
        return None if record is None else Job(record, self.connection)

    async def get_job_counts(self, *states: str) -> dict[str, int]:
        """How many jobs are in each of the states (all if none is named), as of one moment.

        Raises ValueError for a state that does not exist.
        """
        wanted = [_known(state) for state in states or STATES]
        counts = await self.connection.transaction([(_size(state), self.keys[state]) for state in wanted])
        return dict(zip(wanted, counts, strict=True))

    async def pause(self) -> None:
        """Lend no more jobs to any worker, until `resume`. Running jobs go on, adding still works."""
        await self.connection.call("set_gate", verb="pause", ms=0)

    async def resume(self) -> None:
        """End a pause."""
        await self.connection.call("set_gate", verb="resume", ms=0)

    async def is_paused(self) -> bool:
        """True between `pause` and `resume`."""
        return bool(await self.connection.command("HEXISTS", self.keys["meta"], "paused"))

    async def rate_limit(self, duration: Seconds) -> None:
        """Lend no job to any worker for `duration` seconds, for example after a 429 from an API.

        In a handler, follow it by `raise RateLimitError`, which gives the job back uncounted.
        """
        await self.connection.call("set_gate", verb="limit", ms=milliseconds(duration, "duration"))

    async def set_global_rate_limit(self, max: int, duration: Seconds) -> None:
        """Start at most `max` jobs in each window of `duration` seconds, by all workers; see Limiter."""
        await limiter.Limiter(max, duration).store(self.connection)
        await self.connection.call("set_gate", verb="look", ms=0)

    async def remove_global_rate_limit(self) -> None:
        """Start jobs without a limit, from now on; it ends a `rate_limit` too."""
        await limiter.remove(self.connection)
        await self.connection.call("set_gate", verb="look", ms=0)

    async def upsert_job_scheduler(
        self,
        scheduler_id: str,
        name: str,
        data: Any = None,
        *,
        pattern: str | None = None,
        tz: str | None = None,
        every: Seconds | None = None,
        missed: schedule.Missed = "once",
        limit: int = 1,
        **options: Any,
    ) -> schedule.Schedule:
        """Make a schedule, or change the one with this id. Only another pattern, zone or interval moves its
        next tick, so each deployment may upsert what it needs.

        It ticks by a cron `pattern` of five fields in the zone `tz`, or `every` so many seconds from now.
        Each nominal tick adds one job with `name`, `data` and `options` (attempts, backoff, priority,
        timeout, remove_on_...), whatever the number of processes; `job.scheduled_for` is its nominal time.
        Ticks need a running worker. For those that nobody saw, `missed` is "skip" (none of them runs),
        "once" (the latest one) or "all" (the latest `limit`).

        Raises ValueError for a pattern, zone or interval that can not tick.
        """
        template = NewJob.make(name, data, self._max_data, **known_options(options))
        if template.delay or template.own_id or template.deduplicate:
            raise ValueError("the job of a schedule has no delay, job_id or deduplicate of its own")
        now = await self.connection.now_ms()
        made = schedule.make(
            check_job_id(scheduler_id, "schedule id"), template, pattern=pattern, tz=tz, every=every,
            missed=missed, limit=limit, now=now,
        )  # fmt: skip
        check_job_id(f"repeat-{scheduler_id}-{now}")  # what its jobs are called
        tick, anchor, count = await self.connection.call(
            "upsert_schedule", made.fields(), id=made.id, spec=made.spec, next=made.tick_after(now)
        )
        return replace(made, next=tick, anchor=anchor, count=count)

    async def get_job_schedulers(self) -> list[schedule.Schedule]:
        """All schedules, the one that ticks next first."""
        found = []
        for scheduler_id in await self.connection.command("ZRANGE", self.keys["schedules"], 0, -1):
            key, ticks = f"{self.keys['schedule']}:{scheduler_id}", self.keys["schedules"]
            stored, tick = await self.connection.transaction(
                [("HGETALL", key), ("ZSCORE", ticks, scheduler_id)]
            )
            if stored:
                found.append(schedule.Schedule.from_hash(scheduler_id, stored, int(tick)))
        return found

    async def remove_job_scheduler(self, scheduler_id: str) -> bool:
        """Remove a schedule; jobs that it has made stay. True if there was one."""
        key = f"{self.keys['schedule']}:{check_job_id(scheduler_id, 'schedule id')}"
        ticks = self.keys["schedules"]
        removed = await self.connection.transaction([("ZREM", ticks, scheduler_id), ("DEL", key)])
        return bool(removed[0])

    async def clean(self, state: str, *, older_than: Seconds = 0, limit: int | None = None) -> list[str]:
        """Remove jobs of one state, the oldest first, and return their ids.

        `older_than` (seconds since they ended) counts for completed and failed ones only. Raises ValueError
        for an unknown state and for active jobs, which belong to their workers. Children of the removed
        jobs stay (`Job.remove` takes them too), and parents no longer wait for them.
        """
        if _known(state) == "active":
            raise ValueError("active jobs belong to their workers and cannot be cleaned")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise ValueError(f"limit must be a whole number of at least 0, not {limit!r}")
        grace, removed = milliseconds(older_than, "older_than"), list[str]()
        while limit is None or len(removed) < limit:
            most = BULK if limit is None else min(BULK, limit - len(removed))
            ids = await self.connection.call("clean", state=state, grace=grace, limit=most)
            removed += ids
            if len(ids) < most:
                break
        return removed

    async def drain(self, *, delayed: bool = False) -> int:
        """Remove the jobs that wait, also for children (with `delayed`, those too); return how many.

        Active ones go on, and so do children in other queues.
        """
        states = ["waiting-children", "waiting", "prioritized"] + (["delayed"] if delayed else [])
        return sum([len(await self.clean(state)) for state in states])

    async def obliterate(self) -> None:
        """Delete the queue and everything in it.

        Pauses it first. Raises QueueBusy, leaving it paused, while jobs are active.
        """
        await self.pause()
        if active := (await self.get_job_counts("active"))["active"]:
            raise QueueBusy(
                f"queue {self.name!r} has {active} active jobs; close its workers first (it is paused now)"
            )
        await self._clean_all()
        await self.connection.delete_all(but=[self.keys[state] for state in STATES])
        await self._clean_all()  # what was added meanwhile is there as a whole, or goes as a whole

    async def _clean_all(self) -> None:
        for state in ("waiting-children", *STATES):  # parents first, so that no child releases one of them
            if state != "active":
                await self.clean(state)


def _known(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"unknown job state {state!r}; the states are {', '.join(STATES)}")
    return state


def _size(state: str) -> str:
    return "LLEN" if state == "waiting" else "ZCARD"
