"""The proxy in front of Redis."""

from __future__ import annotations

import asyncio
import contextlib

import hiredis

from qlab.testing.explorer.proxy import CHUNK, Connection
from qlab.testing.explorer.resp import RedisFront, redis_result


class RedisConnection(Connection):
    """Redis: a reply for each command."""

    store = "redis"
    _due = 0

    @property
    def owes(self) -> bool:
        """See Connection."""
        return self._due > 0

    def expect(self, owed: str) -> None:
        """See Connection."""
        self._due += len(owed)

    async def serve(self) -> None:
        """Forward command by command."""
        upstream, self.up = await self.delivery.upstream.open_redis()
        self._replying = self.loop.create_task(self._replies(upstream))
        behind = self.delivery.upstream
        front = RedisFront(behind.scripts, behind.loaded, behind.load)
        while data := await self.reader.read(CHUNK):
            for piece in front.feed(data):
                if not await self.forward(piece):
                    return

    async def _replies(self, upstream: asyncio.StreamReader) -> None:
        reader = hiredis.Reader()
        with contextlib.suppress(OSError, hiredis.HiredisError):
            while data := await upstream.read(CHUNK):
                reader.feed(data)
                while (reply := reader.gets()) is not False:
                    self._due -= 1
                    if self.effect is not None:
                        self.effect.result = redis_result(reply)
                self.answer(data)
                if not self.gone:
                    self.settle()
        self.hang_up()

    def leave_server(self) -> None:
        """End our side, and wait for the server to end its own."""
        assert self.up is not None
        if not self.up.transport.is_closing():
            self.loop.begin(self)
            self.up.write_eof()
