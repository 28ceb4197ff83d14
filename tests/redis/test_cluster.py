"""A real node of a Redis Cluster that owns all slots: what works on a cluster, and what is refused there."""

import socket
import time

import pytest
import redis as redis_sync

from qlab import FlowError, FlowProducer, Queue, Worker
from qlab.keys import Keys
from tests.faults.server import Server
from tests.redis.flow_state import child, parent
from tests.redis.queue_state import check_invariants, until


@pytest.fixture(scope="module")
def cluster():
    """The URL of the only node of a cluster."""
    with socket.socket() as one, socket.socket() as other:  # a node needs a port, and one for the others
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        port, bus = (each.getsockname()[1] for each in (one, other))
    server = Server(
        "no", port, f"cluster-enabled yes\ncluster-port {bus}\ncluster-require-full-coverage yes\n"
    )
    try:
        with redis_sync.Redis.from_url(server.url, decode_responses=True) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            wait_until_ok(client)
        yield server.url
    finally:
        server.close()


def wait_until_ok(client, limit=20.0):
    deadline = time.monotonic() + limit
    while "cluster_state:ok" not in (state := str(client.execute_command("CLUSTER", "INFO"))):
        assert time.monotonic() < deadline, state
        time.sleep(0.02)


@pytest.fixture
async def cluster_redis(cluster):
    async with redis_sync.asyncio.Redis.from_url(cluster, decode_responses=True) as client:
        yield client
        await client.flushall()


async def echo(job):
    if job.name == "bad":
        raise RuntimeError("no")
    return [job.data, sorted(await job.get_children_values())]


async def test_the_node_is_one_of_a_cluster(cluster_redis):
    assert (await cluster_redis.info("cluster"))["cluster_enabled"] == 1
    with pytest.raises(redis_sync.ResponseError, match="same slot"):
        await cluster_redis.mget("{a}", "{b}")


async def test_all_that_one_queue_does_works_on_a_cluster(cluster, cluster_redis):
    async with Queue("q", cluster) as queue, Worker("q", echo, cluster, concurrency=3, stalled_interval=0.2):
        await queue.set_global_rate_limit(100, 1)
        await queue.upsert_job_scheduler("s", "tick", every=0.1)
        jobs = await queue.add_bulk(
            [("a", n, {"priority": 3} if n % 2 else {"delay": 0.01}) for n in range(9)]
        )
        for n, job in enumerate(jobs):
            assert await job.wait_until_finished(10) == [n, []]
        bad = await queue.add("bad", attempts=2)
        await until(lambda: _is(bad, "failed"))
        await bad.retry()
        await until(lambda: _is(bad, "failed"))
        await bad.remove()
        await until(lambda: _ticked(queue))
        await queue.remove_job_scheduler("s")
    async with Queue("q", cluster) as queue:
        await queue.clean("completed")
        await check_invariants(cluster_redis, queue.keys)
        await queue.obliterate()
    assert await cluster_redis.keys("*:job:*") == []


async def _is(job, state):
    return (await job.refresh()).state == state


async def _ticked(queue):
    return (await queue.get_job_schedulers())[0].count >= 2


async def test_a_flow_within_one_queue_works_on_a_cluster(cluster, cluster_redis):
    async with FlowProducer(cluster) as flows, Worker("q", echo, cluster):
        node = await flows.add(parent(child(1, "q"), child(2, "q"), queue="q"))
        assert await node.job.wait_until_finished(10) == [None, ["q:c1", "q:c2"]]
        await node.job.remove()
    assert await cluster_redis.keys("*:job:*") == []


async def test_a_flow_over_several_slots_is_refused_in_our_words(cluster, cluster_redis):
    async with FlowProducer(cluster) as flows:
        with pytest.raises(
            FlowError, match=r"is a cluster, and the queues of the flow \(report, thumb\) are in"
        ):
            await flows.add(parent(child(1)))
    assert await cluster_redis.keys("*:job:*") == []


async def test_a_prefix_with_braces_puts_all_queues_into_one_slot(cluster, cluster_redis):
    prefix = "{shop}"
    slots = {
        await cluster_redis.execute_command("CLUSTER", "KEYSLOT", Keys(name, prefix).job("1"))
        for name in ("report", "thumb")
    }
    assert len(slots) == 1
    async with (
        FlowProducer(cluster, prefix=prefix) as flows,
        Worker("thumb", echo, cluster, prefix=prefix),
        Worker("report", echo, cluster, prefix=prefix),
    ):
        node = await flows.add(parent(child(1), child(2)))
        assert await node.job.wait_until_finished(10) == [None, ["thumb:c1", "thumb:c2"]]
