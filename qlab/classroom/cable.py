"""The network between one worker and Redis, as a cable that can be pulled out and put back.

Give a worker the address of the cable, `lab.start_worker("charge:worker", "A", QLAB_REDIS_URL=cable.url)`;
`cable.cut()` breaks every connection and refuses new ones, `cable.mend()` lets them through again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import quote

from redis.asyncio.connection import parse_url


class Cable:
    """A TCP proxy in front of the Redis at `target`; `url` leads through it.

    `delay` says for how many seconds each piece of an answer is held back.
    """

    def __init__(self, target: str, delay: Callable[[], float] | None = None) -> None:
        self._delay = delay
        self._target: dict[str, Any] = dict(parse_url(target))
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._whole = True

    @property
    def url(self) -> str:
        """The address to give to the worker.  RuntimeError before the cable is laid."""
        if self._server is None:
            raise RuntimeError("use `async with Cable(...) as cable`: it is not laid yet")
        port = self._server.sockets[0].getsockname()[1]
        user, password = self._target.get("username") or "", self._target.get("password")
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if password else ""
        return f"redis://{login}127.0.0.1:{port}/{self._target.get('db', 0)}"

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._whole = False
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """New connections get through again."""
        self._whole = True

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        far_reader, far_writer = await self._connect()
        for source, sink, delay in ((reader, far_writer, None), (far_reader, writer, self._delay)):
            self._open.add(sink)
            task = asyncio.create_task(self._carry(source, sink, delay))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if "path" in self._target:
            return await asyncio.open_unix_connection(self._target["path"])
        return await asyncio.open_connection(
            self._target.get("host", "localhost"), self._target.get("port", 6379)
        )

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: Callable[[], float] | None
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                if delay is not None:
                    await asyncio.sleep(delay())
                writer.write(chunk)
                await writer.drain()
        self._open.discard(writer)
        writer.transport.abort()
