"""A proxy in front of a Redis that kills the process that asks: before Redis sees the request, or before the
process sees the answer."""

import asyncio
import contextlib
from urllib.parse import quote

from redis.asyncio.connection import parse_url

from qlab import scripts


def calls(*names):
    """True for a request that runs one of the scripts."""
    shas = [scripts.script(name).sha.encode() for name in names]
    return lambda request: any(sha in request for sha in shas)


class KillProxy:
    """Strikes at the `number`-th request for which `chosen(request)` is true; `when` is "before" or "after".

    `victim` is called to kill. `killed` is set once that has happened; afterwards nothing is carried. Without
    a victim the connection is cut instead, and so at each further `number`-th request; `cuts` counts them.
    """

    def __init__(self, url, chosen, number, when):
        self._target = parse_url(url)
        self._chosen, self._number, self._left, self._when = chosen, number, number, when
        self.cuts = 0
        self.victim = None
        self.killed = asyncio.Event()
        self._tasks = set()

    def _strike(self):
        """Whoever calls this carries nothing more, so its connection is closed."""
        if self.victim is None:
            self.cuts, self._left = self.cuts + 1, self._number
        else:
            self.victim()
            self.killed.set()

    async def _requests(self, reader, writer, marks):
        while not self.killed.is_set() and (request := await reader.read(2**20)):
            if self._chosen(request):
                self._left -= 1
                if self._left == 0 and self._when == "before":
                    self._strike()
                    return
                if self._left == 0:
                    marks.add("its answer kills")
            writer.write(request)
            await writer.drain()

    async def _answers(self, reader, writer, marks):
        while not self.killed.is_set() and (answer := await reader.read(2**20)):
            if marks:
                self._strike()
                return
            writer.write(answer)
            await writer.drain()

    async def _serve(self, reader, writer):
        if "path" in self._target:
            up_reader, up_writer = await asyncio.open_unix_connection(self._target["path"])
        else:
            up_reader, up_writer = await asyncio.open_connection(self._target["host"], self._target["port"])
        marks = set()
        for carry in (self._requests(reader, up_writer, marks), self._answers(up_reader, writer, marks)):
            self._tasks.add(asyncio.create_task(self._closing(carry, writer, up_writer)))

    async def _closing(self, carry, *writers):
        try:
            with contextlib.suppress(OSError):
                await carry
        finally:
            for writer in writers:
                writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port, target = self._server.sockets[0].getsockname()[1], self._target
        password = f":{quote(target['password'], safe='')}@" if target.get("password") else ""
        self.url = f"redis://{password}127.0.0.1:{port}/{target.get('db', 0)}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the closed connections are let go in the next turn of the loop
