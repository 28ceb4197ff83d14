"""Our client: one connection after another command, never one with an answer left in it, never a dead one."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from tests.redis.queue_state import until


async def ids(redis):
    return {one["id"] for one in await redis.client_list()}


async def is_blocked(redis, link):
    return any(one["id"] == link and "b" in one["flags"] for one in await redis.client_list())


async def test_commands_one_after_another_go_over_one_connection(queue):
    assert len({await queue.connection.command("CLIENT", "ID") for _ in range(5)}) == 1


async def test_an_error_of_the_server_leaves_the_connection_open(queue):
    before = await queue.connection.command("CLIENT", "ID")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await queue.connection.command("LLEN", queue.keys["meta"])
    assert await queue.connection.command("CLIENT", "ID") == before


async def test_commands_at_once_have_a_connection_each(queue):
    assert len(set(await asyncio.gather(*(queue.connection.command("CLIENT", "ID") for _ in range(5))))) == 5


async def test_the_answer_to_a_cancelled_command_is_nobody_elses(queue, redis):
    link, client = str(await queue.connection.command("CLIENT", "ID")), queue.connection.client
    waits = asyncio.create_task(client.execute_command("BLPOP", queue.keys["probe"], 30))
    await until(lambda: is_blocked(redis, link))
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await redis.rpush(queue.keys["probe"], "for whoever asks")
    assert await queue.connection.command("ECHO", "mine") == "mine"
    assert await redis.lrange(queue.keys["probe"], 0, -1) == ["for whoever asks"]
    await redis.delete(queue.keys["probe"])


async def test_a_connection_that_the_server_has_closed_is_replaced(queue, redis):
    link = str(await queue.connection.command("CLIENT", "ID"))
    await redis.client_kill_filter(_id=link)
    assert link not in await ids(redis)
    job = await queue.add("a")
    assert not job.duplicate
