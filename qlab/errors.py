"""Every error that qlab raises, by what a caller can do about it."""

from datetime import timedelta


class QlabError(Exception):
    """Base of all errors of this library."""


class PayloadError(QlabError, ValueError):
    """The value is not strict JSON, would change on its way, or is too big. Nothing was stored."""


class RedisUnavailable(QlabError, ConnectionError):
    """Redis could not be reached, what answers is no Redis, or it takes nothing for now (a replica since a
    failover, a snapshot that failed). The command may or may not have run."""


class RedisFull(RedisUnavailable):
    """Redis has no memory left (its `maxmemory`) and refused to store anything; nothing was changed."""


class SchemaMismatch(QlabError):
    """The queue in Redis was written by another version of the key schema."""


class UnrecoverableError(QlabError):
    """Raise it in a handler when another attempt would fail in the same way: the job fails at once."""


class RateLimitError(QlabError):
    """Raise it in a handler after `queue.rate_limit(seconds)`: the job is given back, uncounted (without a
    limit it is the next one again, at once)."""


class DelayedError(QlabError):
    """Raise it in a handler to go on `delay` (seconds or a timedelta) later: no attempt is counted."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(f"delayed by {delay}")
        self.delay = delay


class FlowError(QlabError):
    """The flow cannot be added as it is; nothing was stored."""


class JobStateError(QlabError):
    """The job is in a state in which this cannot be done; nothing was changed."""


class QueueBusy(QlabError):
    """Jobs are active, so the queue cannot be deleted."""


class LockLost(QlabError):
    """This worker no longer holds the job: its lease ran out and the job was given to somebody else.

    Whatever the handler did outside the queue has happened and stays.
    """

    def __init__(self, job_id: str, worker: str, claim: int) -> None:
        super().__init__(
            f"lock lost on job {job_id}: worker {worker} (claim {claim}) does not hold it any more; "
            "its result is refused, its side effects stay"
        )
        self.job_id = job_id
        self.worker = worker
        self.claim = claim


class JobFailed(QlabError):
    """The job that was waited for has failed for good; `reason` is its failed_reason."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} failed: {reason}")
        self.job_id = job_id
        self.reason = reason


class JobGone(QlabError):
    """The job is not in the queue any more and its result is not kept any more."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} is gone: removed, and its result is no longer kept")
        self.job_id = job_id


class BulkAddError(QlabError):
    """A bulk add stopped part-way; `added_ids` are in the queue, the rest is not (or not known to be)."""

    def __init__(self, added_ids: list[str], total: int, cause: BaseException) -> None:
        super().__init__(f"added {len(added_ids)} of {total} jobs, then: {cause}")
        self.added_ids = added_ids
