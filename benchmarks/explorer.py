"""The fault explorer: schedules a second, and how long the table of a lesson takes.

    python -m benchmarks.explorer

Asked for: 75 schedules a second for one actor on PostgreSQL, and a table of one actor in under 3 s.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from functools import partial
from typing import Any

import psycopg

from qlab.classroom.wrong import charging
from qlab.testing import Actor, Evidence, FaultLab, Provider, World, explore

ORDER = {"id": "o1", "amount": 100, "job_id": "j1"}
WAYS = (charging.processed_job_first, charging.charge_first, charging.job_id_as_key)


async def handler(way: Any, world: World) -> None:
    """Charge the order in this way."""
    async with await psycopg.AsyncConnection.connect(world.pg_dsn, autocommit=True) as connection:
        await way(ORDER, connection, world.provider)


async def charged(evidence: Evidence) -> str:
    """The word of the invariant: how often money moved."""
    charges = len(evidence.provider.charges)
    return "twice" if charges > 1 else "once" if charges else "lost"


async def _measure(rounds: int) -> dict[str, Any]:
    begin = time.perf_counter()
    async with FaultLab() as lab:
        start = time.perf_counter() - begin
        await lab.install(charging.create_tables)

        async def one(way: Any, names: str = "A", **options: Any) -> tuple[int, float]:
            actors = [Actor(name, partial(handler, way)) for name in names]
            report = await explore(lab, actors, charged, provider=Provider(dedupe=False), **options)
            return report.schedules, report.seconds

        tables = [await one(way) for way in WAYS for _ in range(rounds)]
        pairs = [await one(charging.charge_first, "AB", switches=1) for _ in range(rounds)]
        isolated = [await one(charging.charge_first, isolate=True) for _ in range(rounds)]
    return {
        "lab_start_s": round(start, 2),
        "one_actor_per_s": round(statistics.median(count / seconds for count, seconds in tables)),
        "table_s": round(statistics.median(seconds for _, seconds in tables), 2),
        "table_worst_s": round(max(seconds for _, seconds in tables), 2),
        "two_actors_per_s": round(statistics.median(count / seconds for count, seconds in pairs)),
        "isolated_per_s": round(statistics.median(count / seconds for count, seconds in isolated)),
    }


def section(quick: bool) -> dict[str, Any]:
    """Measure; `markdown` in the result is for people."""
    found = asyncio.run(_measure(1 if quick else 3))
    lines = ["| fault explorer | figure |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in found.items()]
    return {**found, "markdown": "\n".join(lines)}


if __name__ == "__main__":
    from benchmarks import explorer  # under this name another process can import the handler

    print(json.dumps(explorer.section(quick=False), indent=1))
