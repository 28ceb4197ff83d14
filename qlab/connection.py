"""One queue on one Redis: the client, the names of the keys, the clock, and errors in plain words."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

import hiredis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from qlab import scripts
from qlab.errors import RedisFull, RedisUnavailable, SchemaMismatch
from qlab.events import Listener
from qlab.keys import SCHEMA_VERSION, Keys

RedisLike = str | redis.asyncio.Redis | None
Clock = Callable[[], float]

SOCKET_TIMEOUT = 4.5
"""Seconds for one command and its answer. redis-py's own limit would make a task of each write."""
log = logging.getLogger("qlab")

CONNECT_TIMEOUT = 3.0
MOST_CONNECTIONS = 100
"""Commands on their way at once, if the URL or the client sets no `max_connections`; more wait for a turn."""
_NO_LIMIT = contextlib.nullcontext()
LOST = (RedisConnectionError, RedisTimeoutError, OSError, InvalidResponse, OutOfMemoryError)


def refuses_for_now(error: ResponseError) -> bool:
    """The server answers but takes nothing for now: it became a replica, lacks replicas, could not write its
    snapshot, or is busy with a script. Another time, or another server at the same address, may."""
    kinds = (ReadOnlyError, MasterDownError, ClusterDownError)
    words = ("UNBLOCKED", "NOREPLICAS", "MISCONF", "BUSY ")
    return isinstance(error, kinds) or str(error).startswith(words)


def redis_url(given: str | None = None) -> str:
    """The URL to use: the given one, else QLAB_REDIS_URL, else Redis on this machine."""
    return given or os.environ.get("QLAB_REDIS_URL") or "redis://localhost:6379/0"


class Client(redis.asyncio.Redis):
    """A client that only sends and reads. redis-py packs commands in Python and puts a pool's lock, retries,
    events and timings around each, of which nothing is used here: more work than the rest of an add."""

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        """The answer to one command. A connection whose answer was not read to its end is closed."""
        pool: Any = self.connection_pool
        link = pool.get_available_connection()
        try:
            if link.should_reconnect() or (link.is_connected and await link.can_read()):
                await link.disconnect()  # the server has closed it, or is about to
            if not link.is_connected:
                await link.connect()  # one of Sentinel asks here who the primary is
            await link.send_packed_command(hiredis.pack_command((*words[0].split(), *words[1:])))
            return await self.parse_response(link, words[0], **options)
        except BaseException as error:
            if not isinstance(error, ResponseError):
                await link.disconnect(nowait=True)
            raise
        finally:  # pool.release, without its lock and its statistics
            pool._in_use_connections.remove(link)
            pool._available_connections.append(link)


class Connection:
    """What Queue, Worker and Job share to talk to one queue.

    `redis` is a URL or an asyncio client; the client's settings are copied, because here a command is
    never repeated behind the caller's back: a repeated command could enqueue or settle twice.
    `clock` (seconds since the epoch) replaces the server's clock in tests.
    """

    def __init__(
        self, queue: str, redis_or_url: RedisLike, prefix: str | None = None, clock: Clock | None = None
    ) -> None:
        self.keys = Keys(queue, prefix)
        self._clock = clock
        self._settings, self._most = _settings(redis_or_url)
        self._given = redis_or_url  # a pool of Sentinel must outlive the connections that ask it
        self._turns = asyncio.Semaphore(self._most)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.client = self.open_client()
        self.listener = Listener(self)
        self._checked = False

    def open_client(self) -> Client:
        """A client of its own to the same Redis; commands one after another go over one connection."""
        connection_class, settings = self._settings
        pool = redis.asyncio.ConnectionPool(connection_class, max_connections=2**30, **settings)
        return cast(Client, Client.from_pool(pool))

    def now(self) -> str:
        """The time for a script: empty means that the script asks the server."""
        return "" if self._clock is None else str(round(self._clock() * 1000))

    async def call(
        self, name: str, rest: list[Any] | None = None, *, on: Client | None = None, **fixed: Any
    ) -> Any:
        """Run a script. Raises RedisUnavailable when the server cannot be reached."""
        if not self._checked:
            await self.check()
        client = on or self.client
        return await self._reach(
            on, lambda: scripts.call(client, self.keys, name, rest, now=self.now(), **fixed)
        )

    async def command(self, *words: Any, on: Client | None = None) -> Any:
        """Run a plain command. Raises RedisUnavailable when the server cannot be reached."""
        if not self._checked:
            await self.check()
        client = on or self.client
        return await self._reach(on, lambda: client.execute_command(*words))

    async def now_ms(self) -> int:
        """Milliseconds since the epoch, on the clock that the scripts use."""
        if given := self.now():
            return int(given)
        seconds, micros = await self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def transaction(self, commands: list[tuple[str, ...]]) -> list[Any]:
        """Run plain commands in one MULTI/EXEC, so that their answers are of one moment."""
        if not self._checked:
            await self.check()
        async with self.client.pipeline(transaction=True) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            return list(await self._reach(None, pipe.execute))

    async def _reach(self, on: Client | None, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, errors in plain words. On the shared client a turn is waited for first."""
        if self._loop is not asyncio.get_running_loop():
            self._enter_loop()
        try:
            async with _NO_LIMIT if on else self._turns, asyncio.timeout(SOCKET_TIMEOUT):
                return await ask()
        except LOST as error:
            raise self.unavailable(error) from error
        except ResponseError as error:
            if not refuses_for_now(error):
                raise
            # After a failover the address may name another server; this connection would stay with the old.
            await (on or self.client).connection_pool.disconnect(inuse_connections=False)
            raise self.unavailable(error) from error

    def _enter_loop(self) -> None:
        """Connections live in one event loop; what another one did with them would break both."""
        if self._loop is not None:
            raise RuntimeError(
                f"queue {self.keys.queue!r} is in use in another event loop: close it there first, make one "
                "for each asyncio.run, or use SyncQueue; in a thread use asyncio.run_coroutine_threadsafe"
            )
        self._loop = asyncio.get_running_loop()

    async def delete_all(self, but: Collection[str] = ()) -> None:
        """Delete every key of the queue, `but` these."""
        cursor = 0
        while True:
            cursor, keys = await self.command("SCAN", cursor, "MATCH", self.keys["*"], "COUNT", 1000)
            if doomed := [key for key in keys if key not in but]:
                await self.command("UNLINK", *doomed)
            if cursor == 0:
                return

    async def check(self) -> None:
        """Make sure that this is a Redis and that the queue in it has our key schema."""
        try:
            meta = self.keys["meta"]
            await self._reach(None, lambda: self.client.hsetnx(meta, "schema", SCHEMA_VERSION))
            found = str(await self._reach(None, lambda: self.client.hget(meta, "schema")))
        except ResponseError as error:
            raise RedisUnavailable(f"Redis at {self.address} refused a command: {error}") from error
        if found != SCHEMA_VERSION:
            raise SchemaMismatch(
                f"queue {self.keys.queue!r} was written with key schema {found}, this qlab uses "
                f"{SCHEMA_VERSION}: drain it with the version that wrote it, or use another prefix"
            )
        self._checked = True
        await self._warn_of_eviction()

    async def _warn_of_eviction(self) -> None:
        """Redis may delete jobs when its memory is full, unless its policy is noeviction: say so."""
        with contextlib.suppress(ResponseError):  # some servers do not tell
            policy = (await self._reach(None, lambda: self.client.info("memory"))).get("maxmemory_policy")
            if policy not in (None, "noeviction"):
                log.warning(
                    "Redis at %s has maxmemory-policy %s: when its memory is full it DELETES JOBS; "
                    "set it to noeviction, and keep caches on another Redis",
                    self.address, policy,
                )  # fmt: skip

    async def is_cluster(self) -> bool:
        """True if the server is a node of a Redis Cluster."""
        try:
            answer = await self._reach(None, lambda: self.client.info("cluster"))
        except ResponseError:  # some servers do not tell
            return False
        return bool(answer.get("cluster_enabled"))

    @property
    def address(self) -> str:
        """Where Redis is, without the password."""
        settings = self._settings[1]
        if sentinel := settings.get("connection_pool"):
            return f"the Sentinel service {sentinel.service_name!r}"
        if path := settings.get("path"):
            return f"unix://{path}"
        return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"

    def unavailable(self, error: BaseException) -> RedisUnavailable:
        """The error to raise when the client could not talk to the server."""
        if isinstance(error, OutOfMemoryError):
            return RedisFull(
                f"Redis at {self.address} is full and stored nothing: raise its maxmemory, or make room "
                "(clean finished jobs, keep fewer of them)"
            )
        if isinstance(error, ResponseError):
            return RedisUnavailable(
                f"Redis at {self.address} answers, but refuses this for now: {error} (after a failover see "
                "that the address names the primary)"
            )
        if isinstance(error, InvalidResponse):
            return RedisUnavailable(f"what answers at {self.address} is not a Redis; check QLAB_REDIS_URL")
        if isinstance(error, TimeoutError) and not str(error):
            error = TimeoutError(f"no answer within {SOCKET_TIMEOUT:g} s")
        return RedisUnavailable(
            f"cannot reach Redis at {self.address} ({type(error).__name__}: {error}); "
            "is it running, and is QLAB_REDIS_URL right?"
        )

    async def close(self) -> None:
        """Close the connections."""
        await self.listener.close()
        await self.client.aclose()
        self._turns, self._loop = asyncio.Semaphore(self._most), None


def _settings(given: RedisLike) -> tuple[tuple[type, dict[str, Any]], int]:
    """Class and settings of the connections, and how many there may be."""
    if isinstance(given, redis.asyncio.Redis):
        pool = given.connection_pool
    elif given is None or isinstance(given, str):
        pool = _pool(redis_url(given))
    else:
        raise TypeError(f"redis must be a URL or a redis.asyncio.Redis, not {type(given).__name__}")
    ours = {
        "decode_responses": True,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_TIMEOUT,
    }
    most = pool.max_connections if pool.max_connections < 2**31 else MOST_CONNECTIONS
    return (pool.connection_class, pool.connection_kwargs | ours), most


def _pool(url: str) -> redis.asyncio.ConnectionPool:
    """The pool of a URL. Neither the URL nor the client's words are shown: they may hold the password."""
    try:
        pool = redis.asyncio.ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs)  # an option that it does not know is found here
    except (ValueError, TypeError):
        raise ValueError(
            "the URL of Redis cannot be read: write redis://user:password@host:6379/0, rediss:// or "
            "unix:///path (in a password write '@' as %40, '/' as %2F, '#' as %23, '?' as %3F)"
        ) from None
    return pool
