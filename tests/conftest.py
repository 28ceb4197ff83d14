"""Servers for the tests: one pair for a whole run, found through the environment by every process of it."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import redis as redis_sync
import redis.asyncio as redis_async

from qlab.embedded import Servers, create_database, drop_database, start, with_redis_database

_servers = pytest.StashKey[Servers]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--redis",
        choices=["valkey", "fakeredis"],
        help="start this kind of Redis, whatever QLAB_REDIS_URL says",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The process that the user started starts the pair; the workers of xdist inherit its environment.

    Each worker gets a Redis database of its own on the embedded server, so that it can tell which keys its
    tests left behind.
    """
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        _use_own_database(int(worker["workerid"].removeprefix("gw")) + 1)
    elif not config.option.collectonly:
        servers = start(redis=config.getoption("--redis"))
        config.stash[_servers] = servers
        os.environ.update(servers.environment())


def pytest_unconfigure(config: pytest.Config) -> None:
    servers = config.stash.get(_servers, None)
    if servers is not None:
        servers.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    servers = config.stash.get(_servers, None)
    if servers is None:
        return []
    return [f"servers: {', '.join(servers.versions().values())} ({servers!r})", *servers.notices]


def _use_own_database(number: int) -> None:
    if os.environ.get("QLAB_REDIS_KIND", "external") != "external":
        os.environ["QLAB_REDIS_URL"] = with_redis_database(os.environ["QLAB_REDIS_URL"], number)


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The Redis of this run. On the embedded server the database belongs to this pytest process alone."""
    return os.environ["QLAB_REDIS_URL"]


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[redis_async.Redis]:
    """An asyncio client whose replies are `str`."""
    async with redis_async.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    """A key prefix for one test. Its keys are deleted afterwards; a key made outside it fails the test."""
    own = f"test-{uuid.uuid4().hex[:12]}"
    with redis_sync.Redis.from_url(redis_url, decode_responses=True) as client:
        before = set(client.scan_iter(count=1000))
        yield own
        made = set(client.scan_iter(count=1000)) - before
        mine = {key for key in made if key.startswith(f"{own}:")}
        # On somebody's own server other programs, and the other processes of this run, make keys of theirs.
        shared = os.environ["QLAB_REDIS_KIND"] == "external"
        strays = {key for key in made - mine if not shared or key.startswith("qlab:")}
        if made and not shared:
            client.delete(*made)
        elif mine:
            client.delete(*mine)
    assert not strays, f"keys outside the prefix {own}: were made: {sorted(strays)[:10]}"


@pytest.fixture
def private_redis_url() -> Iterator[str]:
    """A Valkey for one test alone, for what would disturb others: CONFIG SET, CLIENT KILL, SCRIPT FLUSH."""
    with start(postgres=False, redis="valkey") as servers:
        yield servers.redis_url


@pytest.fixture(scope="session")
def fakeredis_url() -> Iterator[str]:
    """A fakeredis server, whatever kind of Redis the run has."""
    with start(postgres=False, redis="fakeredis") as servers:
        yield servers.redis_url


@pytest.fixture
def pg_dsn() -> Iterator[str]:
    """The DSN of a database for one test, dropped afterwards."""
    server = os.environ["QLAB_PG_DSN"]
    name = f"test_{uuid.uuid4().hex[:12]}"
    try:
        yield create_database(server, name)
    finally:
        drop_database(server, name)
