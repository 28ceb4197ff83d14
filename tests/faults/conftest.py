"""Worker processes and a ledger for the tests that kill, stop and block them."""

import pytest

from qlab import Queue
from tests.faults.server import Server
from tests.faults.worker_process import WorkerProcess
from tests.redis.queue_state import check_invariants


@pytest.fixture
async def queue(redis_url, prefix, redis):
    async with Queue("q", redis_url, prefix=prefix) as queue:
        yield queue
    await check_invariants(redis, queue.keys)


@pytest.fixture
async def ledger(redis, prefix):
    """The lines that the handlers wrote so far."""

    async def read(word=""):
        return [line for line in await redis.lrange(f"{prefix}:ledger", 0, -1) if line.startswith(word)]

    return read


@pytest.fixture
def start_process(tmp_path, redis_url, prefix, queue):
    processes = []

    def start(name, **options):
        processes.append(WorkerProcess(tmp_path, name, redis_url=redis_url, prefix=prefix, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


@pytest.fixture
def server():
    """A Valkey of this test's own, which it may stop, kill and pause."""
    server = Server()
    yield server
    server.close()
