"""The database of one submission: its own, with a role that may do what the exercise needs and no more.

The table belongs to the grader, not to the role: an answer cannot put triggers on it or replace it, so the
grader may read and write it with its own rights.
"""

import secrets
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from qlab.classroom.grading.sandbox import GraderSetupError
from qlab.embedded import create_database, drop_database

_ROLE = "CREATE ROLE {} LOGIN PASSWORD {} CONNECTION LIMIT 40"
_ALONE = "REVOKE ALL ON DATABASE {} FROM PUBLIC"
_CONNECT = "GRANT CONNECT ON DATABASE {} TO {}"
_SEND_AWAY = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND usename = %s
"""
_HOLDS_LOCK = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE relation = %(table)s::regclass AND usename = %(role)s AND granted AND mode = 'RowExclusiveLock'
"""
_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE usename = %s AND NOT granted
"""


class SubmissionDatabase:
    """`async with SubmissionDatabase(server_dsn, table_sql, table)`; `dsn` is what the answer gets."""

    def __init__(self, server: str, ddl: str, table: str) -> None:
        self._server, self._ddl, self._table = server, ddl, table
        self._name = f"grade_{secrets.token_hex(8)}"
        self._conn: AsyncConnection[Any] | None = None
        self._own = ""
        self.dsn = ""

    @property
    def on_socket(self) -> bool:
        """True when the server is reached over a Unix socket, so an answer needs no network."""
        return str(conninfo_to_dict(self._server).get("host", "")).startswith("/")

    @property
    def conn(self) -> AsyncConnection[Any]:
        """The grader's own connection (autocommit)."""
        assert self._conn is not None
        return self._conn

    async def __aenter__(self) -> Self:
        password = secrets.token_hex(16)
        try:
            self._own = create_database(self._server, self._name)
            self._conn = await AsyncConnection.connect(self._own, autocommit=True)
            await self._execute(_ROLE, sql.Identifier(self._name), sql.Literal(password))
            await self._execute(_ALONE, sql.Identifier(self._name))
            await self._execute(_CONNECT, sql.Identifier(self._name), sql.Identifier(self._name))
        except psycopg.errors.InsufficientPrivilege as error:
            await self._drop()
            raise GraderSetupError(
                "grading needs a PostgreSQL user that may create databases and roles; "
                "name one in QLAB_PG_DSN, or unset it to use the embedded server"
            ) from error
        await self.conn.execute("SET lock_timeout = '2s'")
        self.dsn = make_conninfo(self._own, user=self._name, password=password)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drop()

    async def _drop(self) -> None:
        if self._conn is not None:
            await self._conn.close()
        drop_database(self._server, self._name)
        with psycopg.connect(self._server, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(self._name)))

    async def _execute(self, statement: Any, *names: sql.Composable) -> None:
        await self.conn.execute(sql.SQL(statement).format(*names))

    async def reset(self) -> None:
        """Send the answer's connections away and start from an empty schema with the empty table."""
        await self.conn.execute(_SEND_AWAY, [self._name])
        await self.conn.execute("DROP SCHEMA public CASCADE")
        await self.conn.execute("CREATE SCHEMA public")
        role, table = sql.Identifier(self._name), sql.Identifier(self._table)
        await self._execute("GRANT CREATE, USAGE ON SCHEMA public TO {}", role)
        await self.conn.execute(self._ddl.encode())
        await self._execute("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON {} TO {}", table, role)

    async def holds_lock(self) -> bool:
        """True when a transaction of the answer has written to the table and is still open."""
        return await self._count(_HOLDS_LOCK, {"table": self._table, "role": self._name}) > 0

    async def waiting(self) -> int:
        """How many locks the answer's connections wait for."""
        return await self._count(_WAITING, [self._name])

    async def _count(self, statement: Any, values: Any) -> int:
        cursor = await self.conn.execute(statement, values)
        row = await cursor.fetchone()
        return int(row[0]) if row else 0

    async def second_connection(self) -> AsyncConnection[Any]:
        """Another connection of the grader's, for a lock that it holds for a while."""
        return await AsyncConnection.connect(self._own)
