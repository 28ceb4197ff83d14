"""A collection of real exceptions, caught from real servers: what a handler's `except` gets to see.

Nothing here is constructed: each exception comes from a request that failed over a socket, from a statement
that PostgreSQL refused, or from a payload that did not parse.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping

import httpx
import psycopg
import redis.asyncio
from psycopg_pool import AsyncConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from qlab.classroom.trouble import Trouble
from qlab.postgres import idempotency

STATUSES = (400, 401, 404, 408, 409, 422, 425, 429, 500, 503)
QUICK = 0.15
"""Seconds after which a call that hangs is given up here."""

PATIENT = 10.0
"""Seconds for a call that will be answered: a machine that pauses must not turn the answer into silence."""

_TABLES = """
CREATE TEMPORARY TABLE owners (id int PRIMARY KEY, name text CHECK (name <> ''));
CREATE TEMPORARY TABLE orders (id int PRIMARY KEY, owner int NOT NULL REFERENCES owners);
"""
_REFUSED = {
    "foreign key": "INSERT INTO orders VALUES (1, 404)",
    "not null": "INSERT INTO orders VALUES (1, NULL)",
    "check": "INSERT INTO owners VALUES (1, '')",
    "not a number": "SELECT 'abc'::int",
    "statement time-out": "SET statement_timeout = 50; SELECT pg_sleep(5)",
}


async def collect(dsn: str) -> dict[str, Exception]:
    """Provoke each failure once and return what was raised, by a short name.

    `dsn` is a PostgreSQL that may be written to (temporary tables only).
    """
    async with Trouble() as api, httpx.AsyncClient(trust_env=False, timeout=PATIENT) as client:
        http = await _http(api.url, client)
    return http | await _postgres(dsn) | await _redis() | await _payloads()


async def _http(url: str, client: httpx.AsyncClient) -> dict[str, Exception]:
    async def get(path: str, read: float = PATIENT) -> object:
        reply = await client.get(url + path, timeout=httpx.Timeout(PATIENT, read=read))
        reply.raise_for_status()
        return reply.json()

    async def limited() -> None:
        async with asyncio.timeout(QUICK):
            await client.get(url + "/hang", timeout=None)

    async def by_socket() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET /reset HTTP/1.1\r\n\r\n")
        try:
            await reader.read()
        finally:
            writer.transport.abort()

    found = {f"HTTP {status}": await _caught(get, f"/status/{status}") for status in STATUSES}
    return found | {
        "socket: ECONNRESET": await _caught(by_socket),
        "httpx: connection reset": await _caught(get, "/reset"),
        "httpx: connection refused": await _caught(client.get, f"http://127.0.0.1:{_closed_port()}/"),
        "httpx: read time-out": await _caught(get, "/hang", QUICK),
        "asyncio.timeout": await _caught(limited),
        "HTML instead of JSON": await _caught(get, "/html"),
    }


async def _postgres(dsn: str) -> dict[str, Exception]:
    found: dict[str, Exception] = {}
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(_TABLES)
        for name, statement in _REFUSED.items():
            found[name] = await _caught(connection.execute, statement)
        found["key held by another"] = await _held(connection)

    async def cut_off() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async def no_free_connection() -> None:
        pool = AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False, timeout=QUICK)
        async with pool, pool.connection(timeout=10), pool.connection():
            pass

    found["connection killed"] = await _caught(cut_off)
    found["pool exhausted"] = await _caught(no_free_connection)
    return found


async def _held(connection: psycopg.AsyncConnection) -> Exception:
    await idempotency.install(connection)
    await idempotency.claim(connection, "charge:o-1", lock_seconds=60)
    try:
        return await _caught(idempotency.claim, connection, "charge:o-1", lock_seconds=60)
    finally:
        await connection.execute("DELETE FROM idempotency_key WHERE key = 'charge:o-1'")


async def _redis() -> dict[str, Exception]:
    client = redis.asyncio.Redis(port=_closed_port(), retry=Retry(NoBackoff(), 0))
    try:
        return {"redis away": await _caught(client.ping)}
    finally:
        await client.aclose()


async def _payloads() -> dict[str, Exception]:
    data: Mapping[str, object] = {"v": 1}

    async def read(text: str) -> object:
        return json.loads(text)

    async def look_up(field: str) -> object:
        return data[field]

    return {
        "payload: broken JSON": await _caught(read, '{"to": "an@example.com"'),
        "payload: field missing": await _caught(look_up, "to"),
    }


async def _caught(call: Callable[..., Awaitable[object]], *arguments: object, **more: object) -> Exception:
    """What `call` raises.  Raises RuntimeError when it works after all."""
    try:
        await call(*arguments, **more)
    except Exception as error:
        return error
    raise RuntimeError(f"{call} was to fail and did not")


def _closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
