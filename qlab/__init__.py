"""qlab: a small, real job queue on Redis, made to be read.

    async with Queue("emails") as queue:
        job = await queue.add("welcome", {"user": 7}, attempts=3, backoff=Backoff.exponential(1.0))

    async def handler(job): ...
    worker = Worker("emails", handler, concurrency=20)     # run it: python -m qlab worker module:worker

Delivery is at least once: a handler may run again, so make it idempotent.
"""

from qlab.errors import (
    BulkAddError,
    DelayedError,
    FlowError,
    JobFailed,
    JobGone,
    JobStateError,
    LockLost,
    PayloadError,
    QueueBusy,
    RateLimitError,
    RedisFull,
    RedisUnavailable,
    UnrecoverableError,
)
from qlab.flow import FlowProducer, JobNode
from qlab.job import Job, JobRecord
from qlab.limiter import Limiter
from qlab.new_job import Deduplicate
from qlab.queue import Queue
from qlab.queue_events import Event, QueueEvents
from qlab.retention import Keep
from qlab.retry import Backoff
from qlab.sync import SyncQueue
from qlab.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "BulkAddError",
    "Deduplicate",
    "DelayedError",
    "Event",
    "FlowError",
    "FlowProducer",
    "Job",
    "JobFailed",
    "JobGone",
    "JobNode",
    "JobRecord",
    "JobStateError",
    "Keep",
    "Limiter",
    "LockLost",
    "PayloadError",
    "Queue",
    "QueueBusy",
    "QueueEvents",
    "RateLimitError",
    "RedisFull",
    "RedisUnavailable",
    "SyncQueue",
    "UnrecoverableError",
    "Worker",
]
