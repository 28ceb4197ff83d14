"""What one job costs when many others are in the queue."""

import asyncio
import statistics
import time

from benchmarks.measure import Bench
from benchmarks.peers import QLAB
from qlab import Queue

JOBS = 1000
"""Jobs of one measurement."""

KEPT = {"remove_on_complete": False}
"""No job is removed, which would be work that has nothing to do with how many there are."""


def cost(bench: Bench, what: str, level: int, rounds: int = 3) -> dict[str, object]:
    """Microseconds a job (drain, median of the rounds) with `level` other jobs that are `what`."""
    bench.redis.flushall()
    asyncio.run(_fill(bench, what, level))
    costs = []
    for _ in range(rounds):
        if what != "waiting":
            asyncio.run(_add(bench, JOBS, KEPT))
        with bench.worker(QLAB, 20) as (_, counter):
            first = bench._wait(lambda c=counter: c.read()[0])
            bench._wait(lambda c=counter: c.read()[1] >= JOBS)
            costs.append((time.monotonic() - first) / counter.read()[1] * 1e6)
        if what == "waiting":
            asyncio.run(_fill(bench, what, level))
    return {"others": what, "level": level, "us_per_job": statistics.median(costs)}


async def _add(bench: Bench, count: int, options: dict[str, object]) -> None:
    async with Queue("bench", bench.env["BENCH_REDIS_URL"]) as queue:
        for first in range(0, count, 1000):
            size = min(1000, count - first)
            await queue.add_bulk([("noop", {"x": i}, options) for i in range(size)])


async def _fill(bench: Bench, what: str, level: int) -> None:
    """Bring the set to `level` jobs."""
    async with Queue("bench", bench.env["BENCH_REDIS_URL"]) as queue:
        missing = level - (await queue.get_job_counts(what))[what]
    await _add(bench, missing, {"delay": 86_400} if what == "delayed" else KEPT)
    if what == "completed" and missing > 0:
        with bench.worker(QLAB, 20):
            bench._wait(lambda: bench.left(QLAB) == 0)
