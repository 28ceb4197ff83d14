"""A server that misbehaves on request: each path answers in its own bad way, over a real socket.

- `/status/503`: that status, or any other
- `/hang`: accepts, then silence
- `/drip`: a byte from time to time, never an end
- `/reset`: the connection is cut hard (RST)
- `/html`: 200, and a page of HTML where JSON was due
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from http import HTTPStatus
from typing import Self

DRIP = 0.05
"""Seconds between two bytes of /drip."""


class Trouble:
    """The server, at `url`: `async with Trouble() as api`, or `await Trouble().start()`; `log` holds
    (time.monotonic(), path) of each request, its query included."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str]] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> Self:
        """Listen on a port of this machine that is free."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def times(self, path: str) -> list[float]:
        """When this path was asked for (its query included), on the clock of time.monotonic()."""
        return [at for at, asked in self.log if asked == path]

    async def close(self) -> None:
        """Cut what hangs and stop listening.  Harmless when repeated."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.log.append((time.monotonic(), path))
            await self._misbehave(path.partition("?")[0], writer)
        except (OSError, EOFError, asyncio.CancelledError):  # the caller has left, or the server is closed
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _misbehave(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path == "/hang":
            await asyncio.Event().wait()
        elif path == "/reset":
            _reset(writer)
        elif path == "/html":
            await _answer(writer, 200, b"<html><h1>Bad gateway</h1></html>")
        elif path == "/drip":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(DRIP)
        else:
            _, _, status = path.rpartition("/")
            await _answer(writer, int(status) if status.isdecimal() else 404, b"{}")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side gets ECONNRESET and not an orderly end."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _answer(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Status"
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
