"""A job: plain data (JobRecord) and a thin handle that does what needs the server (Job)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from qlab import children, events, payload
from qlab.connection import Connection
from qlab.errors import JobGone, JobStateError, LockLost
from qlab.retry import Seconds, milliseconds, seconds

STATES = ("waiting", "prioritized", "active", "delayed", "waiting-children", "completed", "failed")


class JobRecord(NamedTuple):
    """What the hash of a job holds. Times are milliseconds since the epoch on the server's clock.

    `data`, `return_value` and `progress` are JSON texts as they are stored.
    """

    id: str
    name: str
    data: str
    state: str = "waiting"
    birth: str = ""
    added_at: int | None = None
    attempts: int = 1
    attempts_made: int = 0
    stalled_counter: int = 0
    claim: int = 0
    replays: int = 0
    worker: str | None = None
    priority: int | None = None
    timeout: int | None = None
    backoff: str | None = None
    scheduler: str | None = None
    nominal: int | None = None
    parent: str | None = None
    on_failure: str | None = None
    keep_completed: str | None = None
    keep_failed: str | None = None
    processed_at: int | None = None
    finished_at: int | None = None
    return_value: str | None = None
    failed_reason: str | None = None
    stacktrace: str | None = None
    progress: str | None = None
    log: str | None = None

    @classmethod
    def from_hash(cls, job_id: str, stored: dict[str, str]) -> JobRecord:
        """The record of a hash as Redis gives it; fields that this version does not know are left out."""
        values = [job_id, *_DEFAULTS]
        for name, value in stored.items():
            if name in _TEXTS:
                values[_TEXTS[name]] = value
            elif name in _NUMBERS:
                values[_NUMBERS[name]] = int(value)
        return cls._make(values)


_DEFAULTS = JobRecord("", "", "")[1:]
_PLACES = {name: place for place, name in enumerate(JobRecord._fields) if name != "id"}
_NUMBERS = {name: place for name, place in _PLACES.items() if "int" in str(JobRecord.__annotations__[name])}
_TEXTS = {name: place for name, place in _PLACES.items() if name not in _NUMBERS}


class Job:
    """A handle on one job: what was known when it was read (`record`), and what can be asked of it."""

    __slots__ = ("_data", "_holder", "_link", "duplicate", "lock_lost", "record")

    def __init__(
        self,
        record: JobRecord,
        connection: Connection | None,
        *,
        duplicate: bool = False,
        holder: str | None = None,
    ) -> None:
        self.record = record
        self.duplicate = duplicate
        """True if `add` found a job with this id already in the queue and added nothing."""
        self.lock_lost = False
        """True in a handler once the worker has found out that it no longer holds the job."""
        self._link = connection
        self._holder = holder
        self._data: Any = _UNREAD

    @property
    def _connection(self) -> Connection:
        if self._link is None:
            raise RuntimeError("a job in a sandbox has its data only; what needs the server belongs outside")
        return self._link

    @property
    def id(self) -> str:
        """The job's id, unique in its queue."""
        return self.record.id

    @property
    def name(self) -> str:
        """What kind of work this is."""
        return self.record.name

    @property
    def queue_name(self) -> str:
        """The queue that the job is in."""
        return self._connection.keys.queue

    @property
    def data(self) -> Any:
        """The payload, decoded once."""
        if self._data is _UNREAD:
            self._data = payload.decode(self.record.data)
        return self._data

    @property
    def state(self) -> str:
        """One of STATES, as of the last read."""
        return self.record.state

    @property
    def claim(self) -> int:
        """How often the job has been handed to a worker."""
        return self.record.claim

    @property
    def attempts_made(self) -> int:
        """Attempts that have ended, well or badly; stalls and put-backs are not counted."""
        return self.record.attempts_made

    @property
    def stalled_counter(self) -> int:
        """How often a worker lost the job because its lease ran out."""
        return self.record.stalled_counter

    @property
    def return_value(self) -> Any:
        """What the handler returned, None if the job has not completed."""
        return None if self.record.return_value is None else payload.decode(self.record.return_value)

    @property
    def failed_reason(self) -> str | None:
        """Type and text of the last attempt's error."""
        return self.record.failed_reason

    @property
    def progress(self) -> Any:
        """What `update_progress` wrote last, None if nothing."""
        return None if self.record.progress is None else payload.decode(self.record.progress)

    @property
    def log_lines(self) -> list[str]:
        """What `log` has written, as of the last read."""
        return (self.record.log or "").split("\n")[:-1]

    @property
    def added_at(self) -> datetime | None:
        """When the job was added, on the server's clock."""
        return _time(self.record.added_at)

    @property
    def scheduled_for(self) -> datetime | None:
        """The nominal time of the tick that made this job, None if no schedule did."""
        return _time(self.record.nominal)

    @property
    def finished_at(self) -> datetime | None:
        """When the job completed or failed for good, on the server's clock."""
        return _time(self.record.finished_at)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.name!r} {self.state}>"

    async def refresh(self) -> Job:
        """Read the job again. Raises JobGone if it is no longer in the queue (or its id is another job's)."""
        record = await read_record(self._connection, self.id)
        if record is None or record.birth != self.record.birth:
            raise JobGone(self.id)
        self.record, self._data = record, _UNREAD
        return self

    async def wait_until_finished(self, timeout: Seconds | None = None) -> Any:
        """Return the job's result as soon as it has ended, also if that was before this call.

        Raises JobFailed if it failed, JobGone if it was removed and its result is no longer kept, and
        TimeoutError after `timeout` seconds; the job goes on in that case.
        """
        limit = None if timeout is None else seconds(timeout, "timeout")
        return await events.wait(self._connection, self.id, self.record.birth, limit)

    async def remove(self) -> None:
        """Remove the job and, if it is the parent of a flow, all below it. Raises JobStateError, with nothing
        removed, if one of them is active; JobGone if it is not there any more."""
        await self._change("remove")

    async def retry(self, state: Literal["failed", "completed"] = "failed") -> None:
        """Run a failed job (or with "completed" a completed one) again: a replay, with all its attempts,
        ahead of nobody.

        Replay only what you would do again on purpose: see that the cause is gone, that the handler is
        idempotent and that the data still means something. Of many replays, at once or one after the other,
        one runs the job: a handle that was read before the last replay raises JobStateError, as does a job
        in another state. A parent that a failed child made fail comes back by retrying that child.
        """
        if state not in ("failed", "completed"):
            raise ValueError(f"only failed and completed jobs can be run again, not {state!r} ones")
        await self._change("retry" if state == "failed" else "rerun")
        self.record = self.record._replace(replays=self.record.replays + 1)

    async def change_delay(self, delay: Seconds) -> None:
        """Make a delayed job due in `delay` seconds from now. Raises JobStateError if it is not delayed."""
        await self._change("delay", milliseconds(delay, "delay"))

    async def promote(self) -> None:
        """Make a delayed job ready to run now. Raises JobStateError if it is not delayed."""
        await self._change("promote")

    async def _change(self, verb: str, delay: int = 0) -> None:
        seen = self.record
        answer = await self._connection.call(
            "change_job", verb=verb, id=seen.id, birth=seen.birth, replays=seen.replays, delay=delay
        )
        if answer == "gone":
            raise JobGone(self.id)
        if answer == "replayed":
            raise JobStateError(f"job {self.id} was replayed meanwhile: refresh it to see what came of that")
        if answer != "ok":
            raise JobStateError(
                children.refusal(self.id, answer) or f"job {self.id} is {answer}: {_VERBS[verb]}"
            )

    async def get_children_values(self) -> dict[str, Any]:
        """What the handlers of this job's children returned, by "<queue>:<id of the child>"."""
        return await children.values(self._connection, self.id)

    async def get_children_failures(self) -> dict[str, str]:
        """Why children failed (`ignore_dependency`, `continue_parent`, and what still holds this job)."""
        return await children.failures(self._connection, self.id)

    async def get_pending_children(self) -> list[str]:
        """The children that have not ended, or that failed and hold this job or have made it fail."""
        return await children.pending(self._connection, self.id)

    async def update_progress(self, progress: Any) -> None:
        """Write how far the work is (JSON), from the handler. It does not renew the lease. A plain `def`, in
        its thread, hands this to the worker's loop (`asyncio.run_coroutine_threadsafe`).

        Raises LockLost if this worker no longer holds the job, RuntimeError outside a handler.
        """
        await self._note("progress", payload.encode_result(progress, what="progress"))

    async def update_data(self, data: Any) -> None:
        """Replace the payload, from the handler: what the next attempt gets. Raises as `update_progress`,
        and PayloadError for what `add` would refuse."""
        limit = max(payload.DEFAULT_LIMIT, len(self.record.data.encode()))
        text = payload.encode(data, limit=limit)
        await self._note("data", text)
        self.record, self._data = self.record._replace(data=text), _UNREAD

    async def log(self, line: str) -> None:
        """Add to the job's log, from the handler; the latest 16,000 bytes of it stay with the job, through
        all its attempts. Raises as `update_progress`."""
        await self._note("log", payload.clean_text(str(line), 3900))

    async def _note(self, what: str, value: str) -> None:
        if self._holder is None:
            raise RuntimeError(f"{what} is written in a handler: only the holder of a job may write to it")
        token, worker = self._holder.split(" ", 1)
        answer = await self._connection.call(
            "note", token=token, worker=worker, id=self.id, claim=self.claim, what=what, value=value
        )
        if answer == "lock-lost":
            self.lock_lost = True
            raise LockLost(self.id, worker, self.claim)


_UNREAD = object()
_VERBS = {
    "remove": "a job that a worker holds cannot be removed",
    "retry": "only a failed job can be run again, or with retry('completed') a completed one",
    "rerun": "retry('completed') is for completed jobs",
    "delay": "only a delayed job's time can be changed",
    "promote": "only a delayed job can be promoted",
}


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


async def read_record(connection: Connection, job_id: str) -> JobRecord | None:
    """The record of a job, None if there is no such job."""
    stored = await connection.command("HGETALL", connection.keys.job(job_id))
    return JobRecord.from_hash(job_id, stored) if stored.get("birth") else None
