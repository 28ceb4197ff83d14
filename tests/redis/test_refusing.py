"""A server that answers and refuses: full, read-only, without replicas, a snapshot that failed."""

import asyncio
import contextlib
from pathlib import Path

import pytest
import redis.asyncio as redis_async
from redis.asyncio.sentinel import Sentinel

from qlab import Queue, RedisUnavailable, SyncQueue, Worker
from qlab.embedded import start
from qlab.errors import RedisFull
from tests.redis.queue_state import check_invariants, until

FAST = {"lock_duration": 0.5, "stalled_interval": 0.1}


@pytest.fixture
async def full_queue(private_redis_url, prefix):
    async with Queue("q", private_redis_url, prefix=prefix) as queue:
        yield queue
        await check_invariants(queue.connection.client, queue.keys)


async def test_a_job_that_runs_while_redis_is_full_keeps_its_lease_and_runs_once(
    full_queue, private_redis_url, prefix
):
    """Renewing a lease takes no memory; giving the job out again would run it twice."""
    queue, starts, go_on = full_queue, [], asyncio.Event()

    async def handler(job):
        starts.append(job.id)
        await go_on.wait()
        return "x" * 1000

    options = {"prefix": prefix, "concurrency": 2, "max_stalled_count": 5, **FAST}
    async with (
        Worker("q", handler, private_redis_url, name="A", **options) as one,
        Worker("q", handler, private_redis_url, name="B", **options) as other,
    ):
        jobs = [await queue.add("a") for _ in range(4)]
        await until(lambda: len(starts) == 4)
        before = await _deadline(queue)
        await queue.connection.command("CONFIG", "SET", "maxmemory", 1_000_000)
        go_on.set()
        await until(lambda: not one.healthy and not other.healthy)
        with pytest.raises(RedisFull, match="is full and stored nothing"):
            await queue.add("b")
        await until(lambda: _later(queue, before + 1500))  # three locks have passed
        assert await queue.get_job_counts("active", "waiting") == {"active": 4, "waiting": 0}
        await queue.connection.command("CONFIG", "SET", "maxmemory", 0)
        for job in jobs:
            assert await job.wait_until_finished(10) == "x" * 1000
            assert ((await job.refresh()).claim, job.stalled_counter) == (1, 0)
    assert sorted(starts) == sorted(job.id for job in jobs)


async def _deadline(queue):
    return (await queue.connection.command("ZRANGE", queue.keys["active"], 0, 0, "WITHSCORES"))[0][1]


async def _later(queue, deadline):
    return await _deadline(queue) > deadline


REFUSALS = {
    "a replica": (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"], "read only replica"),
    "no replicas": (
        ["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"],
        "NOREPLICAS",
    ),
    "a snapshot failed": (["BGSAVE"], ["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"], "MISCONF"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSALS)
async def test_a_server_that_refuses_for_now_is_named_and_all_goes_on_afterwards(
    full_queue, private_redis_url, prefix, why
):
    queue, (begin, finish, words) = full_queue, REFUSALS[why]
    command = queue.connection.command

    async def handler(job):
        return job.data

    async with Worker("q", handler, private_redis_url, prefix=prefix) as worker:
        assert await (await queue.add("a", 1)).wait_until_finished(5) == 1
        if why == "a snapshot failed":  # it cannot put it where a folder is
            (Path((await command("CONFIG", "GET", "dir"))["dir"]) / "dump.rdb").mkdir()
            await command("CONFIG", "SET", "save", "3600 1")
        await command(*begin)
        await until(lambda: _is_refused(queue))
        with pytest.raises(RedisUnavailable, match=f"answers, but refuses this for now: .*{words}"):
            await queue.add("a", 2)
        producer = SyncQueue("q", private_redis_url, prefix=prefix)
        with producer, pytest.raises(RedisUnavailable, match=words):
            producer.add("a", 2)
        await until(lambda: not worker.healthy)
        await command(*finish)
        assert await (await queue.add("a", 3)).wait_until_finished(5) == 3
        await until(lambda: worker.healthy)


async def _is_refused(queue):
    try:
        await queue.resume()
    except RedisUnavailable:
        return True


async def test_after_a_failover_workers_and_producers_go_to_the_new_primary(prefix):
    """The address names another server, the old connections still lead to the old one, now a replica."""
    with start(postgres=False, redis="valkey") as old, start(postgres=False, redis="valkey") as new:
        async with _address(old.redis_url) as address, Queue("q", old.redis_url, prefix=prefix) as operator:
            ran = []

            async def handler(job):
                ran.append(job.data)

            async with (
                Queue("q", address.url, prefix=prefix) as queue,
                Worker("q", handler, address.url, prefix=prefix) as worker,
            ):
                await (await queue.add("a", "old")).wait_until_finished(5)
                await _give_password(new.redis_url, old.redis_url)
                address.target = new.redis_url
                await operator.connection.command("REPLICAOF", "127.0.0.1", "1")
                await until(lambda: _was_added(queue, "new"))
                await until(lambda: ran == ["old", "new"])
                await until(lambda: worker.healthy)


class _Directory(Sentinel):
    """Sentinel as it is after a vote: it knows where the primary is now."""

    async def discover_master(self, service_name):
        return self.primary


async def test_a_client_of_sentinel_is_asked_for_the_primary_at_each_connect(prefix):
    with start(postgres=False, redis="valkey") as old, start(postgres=False, redis="valkey") as new:
        await _give_password(new.redis_url, old.redis_url)
        async with _address(old.redis_url) as first, _address(new.redis_url) as second:
            directory, ran = _Directory([]), []
            directory.primary = ("127.0.0.1", first.port)

            async def handler(job):
                ran.append(job.data)

            def client():
                return directory.master_for("shop", password=_settings(old.redis_url)["password"])

            async with (
                Queue("q", client(), prefix=prefix) as queue,
                Worker("q", handler, client(), prefix=prefix) as worker,
            ):
                assert queue.connection.address == "the Sentinel service 'shop'"
                await (await queue.add("a", "old")).wait_until_finished(5)
                directory.primary = ("127.0.0.1", second.port)
                async with Queue("q", old.redis_url, prefix=prefix) as operator:
                    await operator.connection.command("REPLICAOF", "127.0.0.1", "1")
                await until(lambda: _was_added(queue, "new"))
                await until(lambda: ran == ["old", "new"])
                await until(lambda: worker.healthy)


async def _give_password(url, model):
    async with redis_async.Redis.from_url(url) as client:
        await client.config_set("requirepass", _settings(model)["password"])


def _settings(url):
    return redis_async.ConnectionPool.from_url(url).connection_kwargs


async def _was_added(queue, data):
    try:
        await queue.add("a", data)
    except RedisUnavailable:
        return False
    return True


class _Address:
    """A port that leads to `target`; connections that are open stay where they are."""

    def __init__(self, target):
        self.target = target

    async def forward(self, reader, writer):
        there, to_there = await asyncio.open_unix_connection(_settings(self.target)["path"])
        await asyncio.gather(self._copy(reader, to_there), self._copy(there, writer))

    async def _copy(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def _address(url):
    address = _Address(url)
    server = await asyncio.start_server(address.forward, "127.0.0.1", 0)
    address.port = server.sockets[0].getsockname()[1]
    address.url = f"redis://:{_settings(url)['password']}@127.0.0.1:{address.port}/0"
    try:
        yield address
    finally:
        server.close()
