"""Small servers: as small as they say, killed and restarted, and gone when closed."""

from pathlib import Path

import psycopg
import pytest
import redis

from qlab.classroom.processes import LabError
from qlab.classroom.small_server import close_all, small_postgres, small_redis


@pytest.fixture(autouse=True)
def closed():
    yield
    close_all()


def test_a_small_redis_has_its_memory_and_its_policy():
    server = small_redis("2mb", "allkeys-lru")
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.config_get("maxmemory*")["maxmemory"] == str(2 * 1024 * 1024)
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
        assert client.config_get("appendonly") == {"appendonly": "no"}


def test_with_a_file_it_has_after_a_kill_what_it_had_before_and_without_one_nothing():
    kept = {}
    for fsync in (None, "always"):
        server = small_redis(appendfsync=fsync)
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            client.set("key", "value")
            server.kill()
            url = server.url
            server.restart()
            assert server.url == url
            kept[fsync] = client.get("key")
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert kept == {None: None, "always": "value"}


def test_starting_the_same_one_again_ends_the_first():
    first = small_redis("2mb")
    folder = Path(first._folder.path)
    second = small_redis("2mb")
    assert not folder.exists()
    with redis.Redis.from_url(second.url) as client:
        assert client.ping()
    second.close()
    second.close()
    assert not Path(second._folder.path).exists()


def test_a_policy_that_redis_does_not_know_is_one_sentence():
    with pytest.raises(LabError, match="Không bật được máy chủ nhỏ"):
        small_redis("2mb", "forget-everything")


def test_a_small_postgres_lets_in_as_many_as_it_says():
    server = small_postgres(connections=4)
    inside = [psycopg.connect(server.url) for _ in range(4)]
    with pytest.raises(psycopg.OperationalError, match="too many clients already"):
        psycopg.connect(server.url)
    for connection in inside:
        connection.close()
