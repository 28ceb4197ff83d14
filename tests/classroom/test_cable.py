"""The cable between a worker and Redis: whole, cut and mended."""

import asyncio

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from qlab.classroom.cable import Cable


def client_of(url: str) -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 0))


async def test_commands_get_through_a_whole_cable_and_again_through_a_mended_one(redis_url):
    async with Cable(redis_url) as cable, client_of(cable.url) as client:
        assert await client.echo("xin chào") == "xin chào".encode()
        cable.cut()
        for _ in range(2):  # the open connection breaks, a new one is refused
            with pytest.raises(redis.ConnectionError):
                await client.ping()
        cable.mend()
        assert await client.ping()


async def test_a_client_that_waits_for_an_answer_learns_of_the_cut(redis_url):
    async with Cable(redis_url) as cable, client_of(cable.url) as client:
        await client.ping()
        waiting = asyncio.create_task(client.blpop(["a list that nobody fills"], timeout=0))
        await asyncio.sleep(0)
        cable.cut()
        with pytest.raises(redis.ConnectionError):
            await waiting


def test_a_cable_has_no_address_before_it_is_laid():
    with pytest.raises(RuntimeError, match="not laid yet"):
        Cable("redis://localhost:6379/0").url  # noqa: B018
