"""The real servers of an exploration, their one clock, and a way back to the beginning for each schedule."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from qlab import scripts
from qlab.embedded import create_database, drop_database, external, postgres, rundir, valkey
from qlab.embedded.account import private_folder, service_account
from qlab.testing.explorer.errors import ExplorerError
from qlab.testing.explorer.rules import asked

_CLOCK = """
CREATE SCHEMA clock;
CREATE SCHEMA beginning;
CREATE SEQUENCE clock.ms MINVALUE 0 START 0;
CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS
    $$SELECT timestamptz '2030-01-01 00:00+00' + (SELECT last_value FROM clock.ms) * interval '1 ms'$$;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock.now()';
CREATE FUNCTION clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT clock.now()';
CREATE FUNCTION clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT clock.now()';
"""
# clock before pg_catalog, so that now() is ours. The server looks for a deadlock at once: then its victim is
# always the one who waits last, because `locked` counts nobody who has not waited five times as long.
_SETTINGS = {"search_path": "public, clock, pg_catalog", "deadlock_timeout": "1"}
_LOCKED = """
SELECT DISTINCT pid, pg_blocking_pids(pid) FROM pg_locks
WHERE NOT granted AND pid = ANY(%s) AND waitstart < pg_catalog.clock_timestamp() - interval '5 ms'
    AND pg_blocking_pids(pid) && %s::int[]
"""
_TABLES = """
SELECT c.oid::regclass::text AS name, quote_ident(c.relname) AS short,
    string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
    AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY c.oid, c.relname ORDER BY c.relname
"""
_SEQUENCES = """
SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
"""
_AGE = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= tonumber(ARGV[1]) then redis.call('DEL', key)
  elseif left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
end
"""
_VACUUM_EVERY = 500
"""Schedules; each leaves dead rows behind."""

_ACTORS = """
CREATE ROLE {role} LOGIN PASSWORD {password};
GRANT USAGE ON SCHEMA clock TO {role};
GRANT SELECT ON SEQUENCE clock.ms TO {role};
GRANT ALL ON SCHEMA public TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO {role};
"""
"""Actors are no superusers: they cannot read files, or move the clock."""

Open = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Upstream:
    """Ways to the real servers for the proxies of one exploration, and what is known about the sessions."""

    def __init__(self, lab: FaultLab) -> None:
        self._lab = lab
        self.warm: dict[bytes, list[Any]] = {}
        self.pids: set[int] = set()
        """Every back end that an actor ever had."""
        self.redis_used = True
        """Redis may hold keys, so time must pass for them and they must be deleted."""
        self.loaded: set[str] = set()
        """SHA-1 of the scripts that Redis has in this schedule."""
        self.scripts = {scripts.script(name).sha: name for name in entry_scripts()}

    def load(self, source: bytes) -> None:
        """Have a script in Redis, unless it cannot be compiled: whoever runs it gets that error."""
        with contextlib.suppress(redis.exceptions.ResponseError):
            self._lab.redis.script_load(source)

    async def open_postgres(self) -> Open:
        """A new connection to the real PostgreSQL."""
        where = conninfo_to_dict(self._lab.pg_dsn)
        host, port = str(where.get("host") or "localhost"), where.get("port") or 5432
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, int(port))

    async def open_redis(self) -> Open:
        """A new connection to the real Redis."""
        self.redis_used = True
        where = self._lab.redis.connection_pool.connection_kwargs
        if path := where.get("path"):
            return await asyncio.open_unix_connection(path)
        return await asyncio.open_connection(where.get("host", "localhost"), where.get("port", 6379))

    def close(self) -> None:
        """End the sessions that were kept."""
        for sessions in self.warm.values():
            for _, writer, *_ in sessions:
                writer.transport.abort()
        self.warm.clear()


class FaultLab:
    """A PostgreSQL and a Redis to explore on: `async with FaultLab() as lab`.

    Without arguments it starts private servers, which end with the block. `pg_dsn` names a server where a
    database of its own is made and dropped again (as a superuser); `redis_url` an *empty* Redis database,
    because it is emptied before every schedule. Raises ServerError or ExplorerError, one sentence.
    """

    def __init__(self, pg_dsn: str | None = None, redis_url: str | None = None) -> None:
        self._given = pg_dsn, redis_url
        self._closing = contextlib.ExitStack()
        self._free = threading.Lock()
        self._resets = 0
        self._known: dict[str, str] = {}
        self.open = False
        self.pg_dsn = ""
        """The lab's own database, not through a proxy."""
        self.redis_url = ""
        """The lab's own Redis, not through a proxy."""

    async def __aenter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._closing.close()
            raise
        self.open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open = False
        self._closing.close()

    def _start(self) -> None:
        server, self.redis_url = self._given[0], self._given[1] or ""
        if server is not None:
            external.check_postgres(server)
        if self.redis_url:
            external.check_redis(self.redis_url)
        run = rundir.create()
        self._closing.callback(run.remove)
        self.folder: Path = run.path
        """For the sockets of the proxies; private to this lab."""
        self.owns_postgres = server is None
        # Closed to everybody else: what an actor can reach are the sockets of its proxies.
        servers = private_folder(run.path / "s", service_account())
        if server is None:
            process, server = postgres.start(servers / "postgres")
            self._closing.callback(process.stop)
        if not self.redis_url:
            process, self.redis_url = valkey.start(servers / "redis")
            self._closing.callback(process.stop)
        name = f"explorer_{secrets.token_hex(6)}"
        try:
            self.pg_dsn = create_database(server, name)
            self._closing.callback(self._drop, server, name)
            self._prepare(name)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ExplorerError(f"pg_dsn must be of a superuser, who can shadow now() ({error})") from None
        self.redis = redis.Redis.from_url(self.redis_url)
        self._closing.callback(self.redis.close)
        if self._given[1] and self.redis.dbsize():
            raise ExplorerError(
                "the Redis database of redis_url holds keys, and exploring empties it before every schedule: "
                "name an empty one, such as .../15"
            )

    def _drop(self, server: str, name: str) -> None:
        drop_database(server, name)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))

    def _prepare(self, name: str) -> None:
        self._role = {"user": name, "password": secrets.token_hex(16)}
        with psycopg.connect(self.pg_dsn, autocommit=True) as connection:
            connection.execute(_CLOCK)
            connection.execute(
                sql.SQL(_ACTORS).format(role=sql.Identifier(name), password=self._role["password"])
            )
            for setting, value in _SETTINGS.items():
                statement = sql.SQL("ALTER DATABASE {} SET {} = " + value)
                connection.execute(statement.format(sql.Identifier(name), sql.SQL(setting)))
        self.pg = psycopg.connect(self.pg_dsn, autocommit=True)
        self._closing.callback(self.pg.close)

    async def install(self, create: Callable[[Any], Awaitable[object]]) -> None:
        """Run `create(connection)` once: tables, and the rows that every schedule begins with."""
        if not self.open:
            raise ExplorerError("the lab is not open; call install inside `async with FaultLab() as lab`")
        self.remember()
        self.reset()
        async with await psycopg.AsyncConnection.connect(self.pg_dsn, autocommit=True) as connection:
            await asked(create, "create", connection)
        self._known.clear()
        self.remember()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Explore alone: two explorations would empty the stores under each other. Raises ExplorerError."""
        if not self._free.acquire(blocking=False):
            raise ExplorerError("the lab is in use by another exploration; await that one first")
        try:
            yield
        finally:
            self._free.release()

    def remember(self) -> None:
        """What the tables hold when they are first seen is how every schedule begins."""
        steps = [
            "SELECT setval('clock.ms', 0)",
            "SET session_replication_role = replica",  # no foreign keys, no triggers
        ]
        for name, short, columns in self.pg.execute(_TABLES).fetchall():
            if name not in self._known:
                # its truncating would lock out an actor, at a moment that no schedule decides
                self.pg.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")
                self.pg.execute(f"DROP TABLE IF EXISTS beginning.{short}")
                self.pg.execute(f"CREATE TABLE beginning.{short} AS SELECT {columns} FROM {name}")
                self._known[name] = ""
            steps.append(f"DELETE FROM {name}")
            if self.pg.execute(f"SELECT 1 FROM beginning.{short} LIMIT 1").fetchone():
                values = f"OVERRIDING SYSTEM VALUE SELECT {columns} FROM beginning.{short}"
                steps.append(f"INSERT INTO {name} ({columns}) {values}")
        for (name,) in self.pg.execute(_SEQUENCES).fetchall():
            if name not in self._known:
                value = self.pg.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
                assert value is not None
                self._known[name] = f"SELECT setval('{name}', {value[0]}, {value[1]})"
            steps.append(self._known[name])
        self._reset = "; ".join([*steps, "RESET session_replication_role"])

    def reset(self, *, with_redis: bool = True) -> None:
        """Back to what was remembered: tables, sequences, the clock; Redis is empty, scripts included."""
        self.pg.execute(self._reset)
        self._resets += 1
        if self._resets % _VACUUM_EVERY == 0:
            self.pg.execute("VACUUM (TRUNCATE false)")
        if not with_redis:
            return
        pipe = self.redis.pipeline(transaction=False)
        pipe.flushdb()
        pipe.script_flush()
        pipe.execute()

    def advance(self, seconds: float, *, with_redis: bool) -> None:
        """Let time pass on both servers."""
        step = round(seconds * 1000)
        self.pg.execute("SELECT setval('clock.ms', (SELECT last_value FROM clock.ms) + %s)", [step])
        if with_redis:
            self.redis.eval(_AGE, 0, step)

    def locked(self, pids: Collection[int | None], actors: Collection[int]) -> dict[int, list[int]]:
        """Those of the back ends that wait for an actor's lock, with the back ends that are before them."""
        return dict(self.pg.execute(_LOCKED, [list(pids), list(actors)]).fetchall())

    def actor_urls(self, folder: Path) -> tuple[str, str]:
        """DSN and URL for an actor whose proxies listen in `folder`."""
        where = conninfo_to_dict(self.pg_dsn)
        where.pop("hostaddr", None)
        dsn = make_conninfo("", **{**where, **self._role, "host": str(folder), "port": 5432})
        kwargs = self.redis.connection_pool.connection_kwargs
        password = f":{kwargs['password']}@" if kwargs.get("password") else ""
        user = unquote(kwargs.get("username") or "") if password else ""
        return dsn, f"unix://{user}{password}{folder}/redis.sock?db={kwargs.get('db') or 0}"


def entry_scripts() -> list[str]:
    """Names of qlab's Lua scripts that can be called."""
    names = [entry.name.removesuffix(".lua") for entry in (files("qlab") / "lua").iterdir()]
    return [name for name in names if name != "prelude" and scripts._read(name).argv is not None]
