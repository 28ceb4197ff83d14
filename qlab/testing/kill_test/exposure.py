"""What a power cut would take: how far the file on disk lags behind what Redis has acknowledged.

    python -m qlab.testing.kill_test.exposure

A killed *process* loses nothing that it has written: the kernel still has it. A machine that loses power
loses what was not yet synced. So nothing is killed here: one task adds jobs, another asks the server again
and again when a write is synced (WAITAOF), and counts the jobs acknowledged meanwhile.
"""

import asyncio
import contextlib
import json
import sys
import time
from typing import Any

from qlab import Queue
from qlab.embedded import ServerError, valkey
from qlab.embedded.rundir import create


def measure(appendfsync: str, seconds: float) -> dict[str, Any]:
    """Add jobs one by one for `seconds` with this policy; return the rate and the longest lag."""
    with contextlib.ExitStack() as closing:
        folder = create()
        closing.callback(folder.remove)
        process, url = valkey.start(folder.path / "durable", appendfsync=appendfsync)
        closing.callback(process.stop)
        return {"appendfsync": appendfsync, **asyncio.run(_measure(url, seconds))}


async def _measure(url: str, seconds: float) -> dict[str, Any]:
    async with Queue("exposure", url) as queue:
        end, added, seconds_lag, jobs_lag = time.monotonic() + seconds, 0, 0.0, 0

        async def add() -> None:
            nonlocal added
            while time.monotonic() < end:
                await queue.add("job", added)
                added += 1

        adding = asyncio.create_task(add())
        client = queue.connection.open_client()
        while not adding.done():
            begin, before = time.monotonic(), added
            await queue.connection.command("INCR", queue.keys["probe"], on=client)
            await queue.connection.command("WAITAOF", 1, 0, 4000, on=client)
            seconds_lag = max(seconds_lag, time.monotonic() - begin)
            jobs_lag = max(jobs_lag, added - before)
        await adding
        await client.aclose()
        return {
            "adds_per_s": round(added / seconds), "not_synced_s": round(seconds_lag, 2),
            "not_synced_jobs": jobs_lag,
        }  # fmt: skip


def main() -> int:
    """Print one JSON line for each policy that syncs."""
    try:
        for policy in ("always", "everysec"):
            print(json.dumps(measure(policy, seconds=10.0)))
    except ServerError as error:
        print(f"exposure: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
