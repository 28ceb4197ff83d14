"""Keep a lesson's processes on a leash: they end when the notebook's kernel does, however it ends.

A program: nothing imports it, and it imports only the standard library until there is something to sweep.

    python leash.py hold command...   wait for one line on stdin, then become the command
    python leash.py watch             read orders (a JSON object a line) until stdin ends, then clean up

The kernel keeps one watcher.  Orders: ``{"watch": pid}``, ``{"forget": pid}``, ``{"sweep": {...}}`` (what to
delete should the kernel die; see :func:`sweep`).  A worker is held until the watcher has been told of it, so
there is no moment at which the kernel's death leaves it behind: a kernel that dies closes both pipes.
"""

import contextlib
import json
import os
import shutil
import signal
import sys


def hold(command: list[str]) -> None:
    """Become ``command`` once told to; leave when the kernel is gone before that."""
    if not sys.stdin.buffer.readline():
        sys.exit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execv(command[0], command)


def watch() -> None:
    """Obey orders until the kernel closes the pipe; then kill what is still watched and sweep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watched: set[int] = set()
    plan: dict[str, str] = {}
    for line in sys.stdin:
        order = json.loads(line)
        watched |= {order["watch"]} if "watch" in order else set()
        watched -= {order["forget"]} if "forget" in order else set()
        plan = order.get("sweep", plan)
    for pid in watched:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    sweep(plan)


def sweep(plan: dict[str, str]) -> None:
    """Delete a lab's keys, database and folder; each is left alone when its server is gone as well."""
    if "folder" in plan:
        shutil.rmtree(plan["folder"], ignore_errors=True)
    if "prefix" in plan:
        with contextlib.suppress(Exception):
            sweep_keys(plan["redis"], plan["prefix"])
    if "database" in plan:
        with contextlib.suppress(Exception):
            import psycopg
            from psycopg import sql

            with psycopg.connect(plan["postgres"], autocommit=True, connect_timeout=3) as connection:
                name = sql.Identifier(plan["database"])
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def sweep_keys(url: str, prefix: str) -> None:
    """Delete every key of a prefix, a thousand at a time."""
    import redis

    with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=5) as client:
        batch = []
        for key in client.scan_iter(match=f"{prefix}:*", count=1000):
            batch.append(key)
            if len(batch) == 1000:
                client.unlink(*batch)
                batch.clear()
        if batch:
            client.unlink(*batch)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2:])
    watch()
