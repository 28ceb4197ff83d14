"""A spike of requests, and what a database and a queue go through meanwhile.

async with watch(few.url, queue) as run:       # connections and depth, some fifty times a second
    run.answers = await post_orders(api.url, 300)
run.counts                                     # {"requests": 300, "accepted": 9, "failed": 291, ...}
picture("Cơn dồn", {"inline": inline, "qua hàng đợi": queued}, ceiling=9)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psycopg

from qlab.classroom.texts import text
from qlab.queue import Queue

if TYPE_CHECKING:
    from qlab.classroom import plots

ORDER = {"item": "book", "quantity": 2}
POLL = 0.02
"""Seconds between two looks at the database and at the queue."""

# Connections in use but our own: logging in, or working. One that its client has just closed shows as idle
# for the moment that its process needs to go.
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state IS DISTINCT FROM 'idle'
"""


@dataclass(frozen=True)
class Answer:
    """What came back for one request: HTTP status (0: no answer), after how many seconds, and the body."""

    status: int
    seconds: float
    body: dict[str, Any] = field(default_factory=dict)


async def post_orders(
    url: str, count: int, *, at_once: int | None = None, timeout: float = 60.0
) -> list[Answer]:
    """POST ``count`` orders to ``url``, ``at_once`` at a time (None: all together); return the answers.

    A request that gets no answer within ``timeout`` seconds, or whose server dies, has status 0.
    """
    turns = asyncio.Semaphore(at_once or count)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=at_once or count)
    async with httpx.AsyncClient(base_url=url, timeout=timeout, limits=limits, trust_env=False) as client:

        async def one() -> Answer:
            async with turns:
                begin = time.monotonic()
                try:
                    reply = await client.post("/orders", json=ORDER)
                except httpx.TransportError:
                    return Answer(0, time.monotonic() - begin)
                body = reply.json() if "json" in reply.headers.get("content-type", "") else {}
                return Answer(reply.status_code, time.monotonic() - begin, body)

        return list(await asyncio.gather(*(one() for _ in range(count))))


def p95(answers: list[Answer]) -> float:
    """The time, in seconds, within which 95 of 100 requests were answered."""
    times = sorted(answer.seconds for answer in answers)
    return times[max(0, -(-len(times) * 95 // 100) - 1)]


class Spike:
    """What was seen: ``times`` (seconds from the start), ``connections`` and ``depth`` at each of them."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.connections: list[int] = []
        self.depth: list[int] = []
        self._answers: list[Answer] = []
        self._answered = 0

    @property
    def answers(self) -> list[Answer]:
        """What the requests got; to be set when the last one was answered."""
        return self._answers

    @answers.setter
    def answers(self, answers: list[Answer]) -> None:
        self._answers, self._answered = answers, len(self.depth)

    @property
    def counts(self) -> dict[str, int]:
        """Requests by how they were answered, and the most connections in use at one moment."""
        accepted = sum(200 <= answer.status < 300 for answer in self.answers)
        return {
            "requests": len(self.answers),
            "accepted": accepted,
            "failed": len(self.answers) - accepted,
            "most_connections": max(self.connections, default=0),
        }

    def draining(self) -> list[int]:
        """The depths from the moment on at which the last request was answered."""
        return self.depth[self._answered :]

    def __repr__(self) -> str:
        return f"Spike({self.counts})"


@asynccontextmanager
async def watch(pg_dsn: str, queue: Queue | None = None) -> AsyncIterator[Spike]:
    """Look at the database's connections, and at the jobs that are not done, until the block ends."""
    run, finished = Spike(), asyncio.Event()
    async with await psycopg.AsyncConnection.connect(pg_dsn, autocommit=True) as connection:
        watching = asyncio.create_task(_look(run, connection, queue, finished))
        try:
            yield run
        finally:
            finished.set()
            await watching


async def _look(
    run: Spike, connection: psycopg.AsyncConnection[Any], queue: Queue | None, finished: asyncio.Event
) -> None:
    begin = time.monotonic()
    while True:
        last = finished.is_set()
        row = await (await connection.execute(_CONNECTIONS)).fetchone()
        counts = await queue.get_job_counts("waiting", "active", "delayed") if queue else {}
        run.times.append(round(time.monotonic() - begin, 3))
        run.connections.append(row[0] if row else 0)
        run.depth.append(sum(counts.values()))
        if last:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), POLL)


async def until_empty(queue: Queue, within: float = 60.0) -> None:
    """Wait until no job waits or runs. Raises TimeoutError after ``within`` seconds."""
    async with asyncio.timeout(within):
        while any((await queue.get_job_counts("waiting", "active", "delayed")).values()):
            await asyncio.sleep(POLL)


def picture(title: str, runs: Mapping[str, Spike], *, ceiling: int) -> plots.Plot:
    """Connections in use and jobs that wait, over time; ``ceiling`` is how many the database allows."""
    from qlab.classroom import plots  # Matplotlib takes a while to load

    connections = plots.Panel(
        text("spike.connections"),
        {name: _most(run.times, run.connections) for name, run in runs.items()},
        limit=ceiling,
        limit_name=text("spike.ceiling"),
        steps=True,
    )
    depths = {name: (run.times, run.depth) for name, run in runs.items() if any(run.depth)}
    depth = plots.Panel(text("spike.depth"), depths)
    return plots.curves(title, [connections, depth], x=text("spike.seconds"))


def _most(times: list[float], values: list[int]) -> plots.Series:
    """The most in each tenth of a second: between two jobs a connection is idle for a moment."""
    most: dict[int, int] = {}
    for at, value in zip(times, values, strict=True):
        tenth = int(at * 10)
        most[tenth] = max(most.get(tenth, 0), value)
    return [*(tenth / 10 for tenth in most), times[-1]], [*most.values(), values[-1]]
