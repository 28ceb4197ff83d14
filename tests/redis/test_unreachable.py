"""A Redis that is not there, or is none, gives one clear sentence; no password is ever shown."""

import asyncio
import contextlib
import logging
import socket

import pytest

from qlab import Queue, RedisUnavailable, Worker
from qlab.errors import SchemaMismatch


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def test_a_producer_fails_fast_when_redis_was_never_there():
    queue = Queue("q", f"redis://:secret@127.0.0.1:{free_port()}/0")
    with pytest.raises(RedisUnavailable, match=r"cannot reach Redis at 127\.0\.0\.1:\d+") as caught:
        await asyncio.wait_for(queue.add("a"), 2)
    assert "secret" not in str(caught.value)
    await queue.close()


async def test_entering_a_queue_without_redis_says_so():
    with pytest.raises(RedisUnavailable, match="is it running"):
        async with Queue("q", f"redis://127.0.0.1:{free_port()}"):
            pass


@contextlib.asynccontextmanager
async def http_server():
    async def answer(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_something_that_is_not_a_redis_is_named_as_such():
    async with http_server() as port:
        with pytest.raises(RedisUnavailable, match="is not a Redis"):
            async with Queue("q", f"redis://127.0.0.1:{port}"):
                pass


async def test_a_server_that_never_answers_is_given_up(monkeypatch):
    async def silence(reader, writer):
        await reader.read()
        writer.close()

    monkeypatch.setattr("qlab.connection.SOCKET_TIMEOUT", 0.3)
    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    async with server:
        queue = Queue("q", f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(RedisUnavailable, match=r"no answer within 0\.3 s"):
            await asyncio.wait_for(queue.add("a"), 3)
        await queue.close()


async def test_a_worker_without_redis_says_so_once_and_keeps_trying(caplog):
    async def handler(job):
        return None

    with caplog.at_level(logging.ERROR, "qlab.worker"):
        async with Worker("q", handler, f"redis://:secret@127.0.0.1:{free_port()}", name="A") as worker:
            async with asyncio.timeout(5):
                while not caplog.records:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert not worker.healthy
    assert len(caplog.records) == 1
    assert "trying again until it works" in caplog.text
    assert "secret" not in caplog.text


async def test_another_key_schema_is_refused(redis, redis_url, prefix):
    await redis.hset(f"{prefix}:{{q}}:meta", "schema", "99")
    with pytest.raises(SchemaMismatch, match="key schema 99"):
        async with Queue("q", redis_url, prefix=prefix):
            pass


async def test_a_client_can_be_given_and_its_settings_are_copied(redis, prefix):
    async with Queue("q", redis, prefix=prefix) as queue:
        job = await queue.add("a", 1)
        assert (await queue.get_job(job.id)).data == 1
    assert await redis.ping()


@pytest.mark.parametrize(("policy", "warned"), [("allkeys-lru", True), ("noeviction", False)])
async def test_a_redis_that_may_delete_jobs_is_warned_of_loudly(
    private_redis_url, prefix, caplog, policy, warned
):
    async with Queue("q", private_redis_url, prefix=prefix) as queue:
        await queue.connection.command("CONFIG", "SET", "maxmemory-policy", policy)
    with caplog.at_level(logging.WARNING, "qlab"):
        async with Queue("q", private_redis_url, prefix=prefix):
            pass
    assert ("DELETES JOBS" in caplog.text) is warned
