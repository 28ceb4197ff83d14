"""Our client: one connection after another command, never one with an answer left in it, never a dead one."""

import asyncio

import pytest
import redis.asyncio
from redis.exceptions import ResponseError

from qlab import Queue
from tests.redis.queue_state import until


@pytest.fixture
async def observed(private_redis_url, prefix):
    """A queue, and a client that sees and ends the connections of the same server."""
    async with (
        redis.asyncio.from_url(private_redis_url, decode_responses=True) as client,
        Queue("observed", redis=private_redis_url, prefix=prefix) as queue,
    ):
        yield queue, client


async def ids(client):
    return {one["id"] for one in await client.client_list()}


async def is_blocked(client, link):
    return any(one["id"] == link and "b" in one["flags"] for one in await client.client_list())


async def test_commands_one_after_another_go_over_one_connection(queue):
    assert len({await queue.connection.command("CLIENT", "ID") for _ in range(5)}) == 1


async def test_an_error_of_the_server_leaves_the_connection_open(queue):
    before = await queue.connection.command("CLIENT", "ID")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await queue.connection.command("LLEN", queue.keys["meta"])
    assert await queue.connection.command("CLIENT", "ID") == before


async def test_commands_at_once_have_a_connection_each(queue):
    assert len(set(await asyncio.gather(*(queue.connection.command("CLIENT", "ID") for _ in range(5))))) == 5


async def test_the_answer_to_a_cancelled_command_is_nobody_elses(observed):
    queue, client = observed
    link, key = str(await queue.connection.command("CLIENT", "ID")), queue.keys["probe"]
    waits = asyncio.create_task(queue.connection.client.execute_command("BLPOP", key, 30))
    await until(lambda: is_blocked(client, link))
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await client.rpush(key, "for whoever asks")
    assert await queue.connection.command("ECHO", "mine") == "mine"
    assert await client.lrange(key, 0, -1) == ["for whoever asks"]


async def test_a_connection_that_the_server_has_closed_is_replaced(observed):
    queue, client = observed
    link = str(await queue.connection.command("CLIENT", "ID"))
    await client.client_kill_filter(_id=link)
    assert link not in await ids(client)
    job = await queue.add("a")
    assert not job.duplicate
