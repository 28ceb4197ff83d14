"""Run the service: ``python -m examples.orders [both|api|worker] [--port 8000]``.

``both`` starts an API and a worker as processes of their own and ends them together: on SIGTERM and Ctrl-C,
and when one of them ends by itself. Without QLAB_REDIS_URL or QLAB_PG_DSN it brings private servers along.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys

import psycopg
import uvicorn

from examples.orders import store
from examples.orders.settings import Settings, SettingsError
from qlab.embedded import ServerError, start, tie
from qlab.runner import run

GRACE = 10.0
"""Seconds that an order which is being made gets when the service is told to end."""


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description="A shop's orders.")
    parser.add_argument("part", nargs="?", choices=["both", "api", "worker"], default="both")
    parser.add_argument("--port", type=int, default=8000, help="of the API (default 8000; 0: any free one)")
    options = parser.parse_args()
    try:
        if options.part == "api":
            return _api(options.port)
        if options.part == "worker":
            return _worker()
        return _both(options.port)
    except (SettingsError, ServerError) as error:
        print(f"orders: {error}", file=sys.stderr)
        return 1
    except psycopg.Error as error:
        print(f"orders: PostgreSQL cannot be used: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


def _api(port: int) -> int:
    Settings.read()
    uvicorn.run(
        "examples.orders.api:create_app", factory=True, port=port, access_log=False,
        timeout_graceful_shutdown=int(GRACE),
    )  # fmt: skip
    return 0


def _worker() -> int:
    Settings.read()
    return run("examples.orders.worker:make_worker", GRACE)


def _both(port: int) -> int:
    with start() as servers:
        for notice in servers.notices:
            print(f"orders: {notice}", file=sys.stderr)
        os.environ.update(servers.environment())
        settings = Settings.read()
        return asyncio.run(_keep_running(settings.pg_dsn, port))


async def _keep_running(pg_dsn: str, port: int) -> int:
    async with await psycopg.AsyncConnection.connect(pg_dsn, connect_timeout=5) as connection:
        await store.create_tables(connection)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    parts = [await _start("api", "--port", str(port)), await _start("worker")]
    waits = [asyncio.create_task(stop.wait()), *(asyncio.create_task(part.wait()) for part in parts)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*(_end(part) for part in parts))
    for wait in waits:
        wait.cancel()
    return 0 if stop.is_set() else 1


async def _start(*words: str) -> asyncio.subprocess.Process:
    """A part of the service. On Linux it is told to end (SIGTERM) also when we are killed."""
    command = [sys.executable, "-m", "examples.orders", *words]
    tied = [sys.executable, tie.__file__, "direct", str(os.getpid()), str(int(signal.SIGTERM)), "-1", "-1"]
    # A session of its own: Ctrl-C reaches us, and we pass it on once.
    return await asyncio.create_subprocess_exec(*tied, *command, start_new_session=True)


async def _end(part: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        part.terminate()
    try:
        await asyncio.wait_for(part.wait(), GRACE + 5)
    except TimeoutError:
        part.kill()
        await part.wait()


if __name__ == "__main__":
    sys.exit(main())
