"""More jobs than a Redis has room for: what it said to each, and which of them ever ran.

said = await flood(tight.url, 2000)            # {"accepted": 2000, "refused": 0}
more_memory(tight.url)
ran = await run_all(tight.url)                 # numbers of the jobs that a worker got to see
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from qlab.classroom.spike import until_empty
from qlab.errors import RedisFull
from qlab.job import Job
from qlab.queue import Queue
from qlab.worker import Worker

QUEUE = "receipts"
AT_ONCE = 50
NOTE = "x" * 1000
"""Payload of each job beside its number, so that a small memory is full soon."""


async def flood(url: str, count: int) -> dict[str, int]:
    """Add ``count`` jobs, fifty in a call, and go on after a refusal; say how many were accepted or refused.

    Raises whatever is no refusal for lack of memory.
    """
    said = {"accepted": 0, "refused": 0}
    async with Queue(QUEUE, url) as queue:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            try:
                await queue.add_bulk([("receipt", {"order": n, "note": NOTE}) for n in numbers])
            except RedisFull:
                said["refused"] += len(numbers)
            else:
                said["accepted"] += len(numbers)
    return said


def fill_up(url: str) -> None:
    """Be somebody else who fills this Redis, until it refuses to store anything more.

    The limit then goes a little below what is used, so that a freed buffer does not make room again.
    """
    with redis.Redis.from_url(url) as client:
        with contextlib.suppress(redis.exceptions.OutOfMemoryError):
            for number in range(1_000_000):
                client.set(f"junk:{number}", NOTE)
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used - 256 * 1024)


def more_memory(url: str) -> None:
    """Lift the server's memory limit, as an operator would who gives it a bigger machine."""
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory", 0)


async def run_all(url: str) -> set[int]:
    """Run every job that is there; return the numbers of those that ran."""
    ran: set[int] = set()

    async def handle(job: Job) -> None:
        ran.add(job.data["order"])

    async with Queue(QUEUE, url) as queue, Worker(QUEUE, handle, url, concurrency=50):
        await until_empty(queue)
    return ran


class _Lines(logging.Handler):
    """Keeps the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def log_lines(name: str = "qlab") -> Iterator[list[str]]:
    """Catch what is logged under ``name`` in the block: the list grows, and nothing goes elsewhere."""
    logger, handler = logging.getLogger(name), _Lines()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
