"""Handlers for actors in processes of their own: importable, and some of them hostile."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import psycopg

from qlab.testing import World
from tests.testing.explored import connect


async def spin(world: World) -> None:
    while True:
        pass


async def die_by_itself(world: World) -> None:
    """As when memory runs out, at the first delivery; the second sees the file that the first has left."""
    if not _first_here():
        await world.provider.charge("o1", 100)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


async def leave_something_behind(world: World) -> None:
    """A child in a session of its own, which goes on and talks to the database as long as it can."""
    _fork_a_survivor(world.pg_dsn)
    async with await connect(world) as connection:
        await connection.execute("SELECT 1")


def _first_here() -> bool:
    try:
        Path("seen").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fork_a_survivor(dsn: str) -> None:
    if os.fork() == 0:
        os.setsid()
        for _ in range(200):
            with contextlib.suppress(psycopg.Error), psycopg.connect(dsn) as connection:
                connection.execute("INSERT INTO processed_job VALUES (gen_random_uuid())")
            time.sleep(0.005)
        os._exit(0)


async def look_around(world: World) -> None:
    """Charges only if it can reach nothing that it should not."""
    servers = Path(world.provider_socket).parent.parent / "s"
    try:
        list(servers.iterdir())
    except PermissionError:
        async with await connect(world) as connection:
            try:
                await connection.execute("SELECT pg_read_file('postgresql.conf')")
            except psycopg.errors.InsufficientPrivilege:
                await world.provider.charge(str(os.getuid()), 100)


async def sleep_and_charge(world: World) -> None:
    await asyncio.gather(asyncio.sleep(5), asyncio.sleep(3))
    await world.provider.charge("o1", int(world.time()) % 1000)


async def use_a_thread(world: World) -> None:
    await asyncio.to_thread(len, "x")


async def return_at_once(world: World) -> None:
    pass
