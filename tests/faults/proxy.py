"""A TCP proxy in front of a Redis that delays what it carries."""

import asyncio
import contextlib
import random
from urllib.parse import quote

from redis.asyncio.connection import parse_url


@contextlib.asynccontextmanager
async def slow_proxy(url, low, high, rng=random):
    """Yield the URL of a proxy that adds between `low` and `high` seconds to each answer."""
    target = parse_url(url)
    tasks = set()

    async def carry(reader, writer, delay):
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while chunk := await reader.read(65536):
                await asyncio.sleep(delay())
                writer.write(chunk)
                await writer.drain()

    async def connect():
        if "path" in target:
            return await asyncio.open_unix_connection(target["path"])
        return await asyncio.open_connection(target["host"], target["port"])

    async def serve(reader, writer):
        up_reader, up_writer = await connect()
        both = (
            carry(reader, up_writer, lambda: 0),
            carry(up_reader, writer, lambda: rng.uniform(low, high)),
        )
        tasks.update(asyncio.create_task(one) for one in both)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    password = f":{quote(target['password'], safe='')}@" if target.get("password") else ""
    try:
        yield f"redis://{password}127.0.0.1:{port}/{target.get('db', 0)}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the closed connections are let go in the next turn of the loop
