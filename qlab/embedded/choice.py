"""Which servers to use: the user's own, else embedded ones, else an imitation of Redis."""

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from . import external
from .errors import ServerError

_REDIS = ("QLAB_REDIS_URL", "QLAB_REDIS_KIND")
_POSTGRES = ("QLAB_PG_DSN", "QLAB_PG_KIND")


class Servers:
    """A Redis and perhaps a PostgreSQL. Embedded ones end with `close()` and at the latest with us."""

    def __init__(self) -> None:
        self.redis_url: str = ""
        """URL for redis-py, with its password."""
        self.redis_kind: str = ""
        """"external", "valkey" or "fakeredis"."""
        self.pg_dsn: str | None = None
        """DSN for psycopg, with its password; None when there is no PostgreSQL."""
        self.pg_kind: str = "none"
        """"external", "postgres" or "none"."""
        self.notices: list[str] = []
        """What the user should know about the choice, a sentence or two each."""
        self._closing: list[Callable[[], None]] = []
        self._owner = os.getpid()

    def environment(self) -> dict[str, str]:
        """The variables by which other processes find these servers; the kinds keep notices alive."""
        found = {"QLAB_REDIS_URL": self.redis_url, "QLAB_REDIS_KIND": self.redis_kind}
        if self.pg_dsn:
            found |= {"QLAB_PG_DSN": self.pg_dsn, "QLAB_PG_KIND": self.pg_kind}
        return found

    def versions(self) -> dict[str, str]:
        """What the servers say they are: {"redis": "Valkey 9.1.2", "postgres": "PostgreSQL 18.6"}."""
        from .versions import postgres_version, redis_version

        found = {"redis": redis_version(self.redis_url, self.redis_kind)}
        if self.pg_dsn:
            found["postgres"] = postgres_version(self.pg_dsn)
        return found

    def close(self) -> None:
        """Stop what was started here. Harmless when repeated, and in a child made by fork."""
        if os.getpid() != self._owner:
            return
        while self._closing:
            self._closing.pop()()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Servers redis={self.redis_kind} postgres={self.pg_kind}>"


def start(postgres: bool = True, *, redis: str | None = None) -> Servers:
    """Servers for this process: those of QLAB_REDIS_URL and QLAB_PG_DSN where set, else embedded ones.

    `redis="valkey"` or `redis="fakeredis"` insists on a server of that kind of one's own. `postgres=False`
    starts no PostgreSQL. Raises `ServerError`, one sentence, when a named server is not there or nothing can
    be started. A missing PostgreSQL is a notice, since only a part of the course needs it.
    """
    servers = Servers()
    try:
        _choose_redis(servers, redis)
        if postgres:
            _choose_postgres(servers)
    except BaseException:
        servers.close()
        raise
    if servers._closing:
        atexit.register(servers.close)
    return servers


def _choose_redis(servers: Servers, wanted: str | None) -> None:
    url, kind = (os.environ.get(name) for name in _REDIS)
    if url and wanted is None:
        external.check_redis(url)
        servers.redis_url, servers.redis_kind = (url, kind if kind in ("valkey", "fakeredis") else "external")
    else:
        _embed_redis(servers, wanted)
    if servers.redis_kind == "fakeredis":
        from .fake import NOTICE

        servers.notices.append(NOTICE)


def _embed_redis(servers: Servers, wanted: str | None) -> None:
    folder = _run_folder(servers)
    if wanted != "fakeredis":
        from . import valkey

        try:
            process, servers.redis_url = valkey.start(folder / "redis")
        except (ServerError, OSError) as error:
            if wanted == "valkey":
                raise
            servers.notices.append(f"No Valkey runs here: {error}")
        else:
            servers._closing.append(process.stop)
            servers.redis_kind = "valkey"
            return
    from . import fake

    process, servers.redis_url = fake.start(folder / "fakeredis")
    servers._closing.append(process.stop)
    servers.redis_kind = "fakeredis"


def _choose_postgres(servers: Servers) -> None:
    dsn, kind = (os.environ.get(name) for name in _POSTGRES)
    if dsn:
        external.check_postgres(dsn)
        servers.pg_dsn, servers.pg_kind = (dsn, "postgres" if kind == "postgres" else "external")
        return
    from . import postgres

    try:
        process, servers.pg_dsn = postgres.start(_run_folder(servers) / "postgres")
    except (ServerError, OSError) as error:
        servers.notices.append(f"No PostgreSQL runs here, so the parts that need it cannot be run: {error}")
        return
    servers._closing.append(process.stop)
    servers.pg_kind = "postgres"


def _run_folder(servers: Servers) -> Path:
    """A new folder for one server, after a sweep of the folders that dead processes left."""
    if sys.platform == "win32":
        raise ServerError(
            "The embedded servers need Linux or macOS: on Windows use WSL, or set QLAB_REDIS_URL."
        )
    from . import rundir

    rundir.sweep()
    run = rundir.create()
    servers._closing.append(run.remove)
    return run.path
