"""Servers that are small on purpose: a Redis with little memory, a PostgreSQL with few connections.

    tight = small_redis("2mb", "allkeys-lru")
    tight.url
    few = small_postgres(connections=10)

They are private, so a lesson may fill, starve, kill and restart them; they end with ``close()``, when the
same one is started again, and at the latest with this process.  They need the programs of the course (Linux
or macOS); a server of one's own (QLAB_REDIS_URL, QLAB_PG_DSN) is never touched.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable

import redis

from qlab.classroom.processes import LabError
from qlab.classroom.texts import text
from qlab.embedded import ServerError, postgres, rundir, valkey
from qlab.embedded.lifetime import Tied

_open: dict[str, SmallServer] = {}


class SmallServer:
    """A running server. ``url`` is a Redis URL or a PostgreSQL DSN."""

    def __init__(self, name: str, start: Callable[[rundir.RunDir], tuple[Tied, str]]) -> None:
        if name in _open:
            _open[name].close()
        self.name, self._start = name, start
        try:
            self._folder = rundir.create()
            self._process, self.url = start(self._folder)
        except (ServerError, OSError) as error:
            raise LabError(text("small_server.no_server", reason=error)) from None
        _open[name] = self

    def kill(self) -> None:
        """SIGKILL, as by a crash: nothing is saved on the way out."""
        self._process.process.kill()
        self._process.stop()

    def restart(self) -> None:
        """Start again on what is on the disk, at the same address."""
        self._process.stop()
        self._process, self.url = self._start(self._folder)

    def close(self) -> None:
        """End it and delete its files. Harmless when repeated."""
        if _open.get(self.name) is self:
            del _open[self.name]
        self._process.stop()
        self._folder.remove()

    def __repr__(self) -> str:
        return f"SmallServer({self.name})"


def small_redis(
    maxmemory: str | None = None, policy: str = "noeviction", *, appendfsync: str | None = None
) -> SmallServer:
    """A Redis that holds at most ``maxmemory`` ("2mb") and then does what ``policy`` says.

    With ``appendfsync`` ("always", "everysec") it keeps an append-only file. Raises LabError when no Redis
    runs here, and for a policy or a size that Redis does not know.
    """

    def start(folder: rundir.RunDir) -> tuple[Tied, str]:
        process, url = valkey.start(folder.path / "redis", appendfsync=appendfsync)
        try:
            with redis.Redis.from_url(url) as client:
                client.config_set("maxmemory-policy", policy)
                client.config_set("maxmemory", maxmemory or 0)
        except redis.ResponseError as error:
            process.stop()
            raise ServerError(str(error)) from None
        return process, url

    return SmallServer(f"redis {maxmemory} {policy} {appendfsync}", start)


def small_postgres(connections: int) -> SmallServer:
    """A PostgreSQL that lets ``connections`` clients in. Raises LabError when none runs here."""

    def start(folder: rundir.RunDir) -> tuple[Tied, str]:
        # Nothing is kept back for an administrator, so that the number is the number.
        return postgres.start(
            folder.path / "postgres", max_connections=str(connections), superuser_reserved_connections="0"
        )

    return SmallServer(f"postgres {connections}", start)


@atexit.register
def close_all() -> None:
    """End what is still running."""
    for server in list(_open.values()):
        with contextlib.suppress(OSError):
            server.close()
