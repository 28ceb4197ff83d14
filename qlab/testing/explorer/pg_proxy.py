"""The proxy in front of PostgreSQL. Back ends are kept warm from actor to actor: a new one takes long."""

from __future__ import annotations

import asyncio

from qlab.testing.explorer.errors import Unsupported
from qlab.testing.explorer.proxy import CHUNK, Connection
from qlab.testing.explorer.wire import (
    CANCEL,
    PG_SYNC,
    STARTUP,
    Message,
    PgBack,
    PgFront,
    WireError,
    pg_query,
    pg_result,
)

_LEAVE = PG_SYNC + pg_query(b"ROLLBACK") + pg_query(b"DISCARD ALL")
"""What a back end does when its client is gone, so that it can be given to another actor."""


class PgConnection(Connection):
    """PostgreSQL. Back ends are kept warm: the next actor gets the recorded greeting of a clean one."""

    store = "postgres"
    pid: int | None = None

    async def serve(self) -> None:
        """Greet, then forward up to each Sync or Flush."""
        front, self._back = PgFront(), PgBack()
        first = None
        while first is None:
            data = await self.reader.read(CHUNK)
            if not data:
                return
            first = front.startup(data)
        code, self._packet = first
        if code == CANCEL:
            return  # as if it came too late: the query goes on
        if code >> 16 != STARTUP >> 16:
            raise Unsupported(
                "an encrypted connection is out of reach of the fault explorer: sslmode=disable"
            )
        await self._connect()
        while data := await self.reader.read(CHUNK):
            for piece in front.feed(data):
                if piece.end or not await self.forward(piece):
                    return

    async def _connect(self) -> None:
        warm = self.delivery.upstream.warm.get(self._packet)
        self._greeting: list[bytes] = []
        if warm:
            upstream, self.up, self.pid, self._greeting = warm.pop()
            self.answer(b"".join(self._greeting))
            self._greeted = True
        else:
            upstream, self.up = await self.delivery.upstream.open_postgres()
            self._greeted = False
            self.up.write(self._packet)
            self.asked("Z")
        self._replying = self.loop.create_task(self._replies(upstream))

    @property
    def owes(self) -> bool:
        """See Connection."""
        return bool(self._back.owed)

    def expect(self, owed: str) -> None:
        """See Connection."""
        self._back.expect(owed)

    async def _replies(self, upstream: asyncio.StreamReader) -> None:
        try:
            while data := await upstream.read(CHUNK):
                for message in self._back.feed(data):
                    self._note(message)
                self.answer(data)
                self.settle()
                if self.gone and not self.owes:
                    entry = (upstream, self.up, self.pid, self._greeting)
                    self.delivery.upstream.warm.setdefault(self._packet, []).append(entry)
                    return
        except Unsupported as error:
            self.delivery.refusal = self.delivery.refusal or str(error)
        except (OSError, WireError):
            pass
        self.hang_up()

    def _note(self, message: Message) -> None:
        if not self._greeted:
            if message.kind != b"R" or message.body == b"\0\0\0\0":  # but for questions about the password
                self._greeting.append(message.raw)
            if message.kind == b"K":
                self.pid = int.from_bytes(message.body[:4], "big")
                self.delivery.upstream.pids.add(self.pid)
            self._greeted = message.kind == b"Z"
        elif self.effect is not None and not self.gone and (result := pg_result(message)):
            self.effect.result = f"{self.effect.result}; {result}".lstrip("; ")

    def leave_server(self) -> None:
        """Roll back and forget the session, which is what the server does when a client dies."""
        assert self.up is not None
        if self._greeted and not self.up.transport.is_closing():
            self.up.write(_LEAVE)
            self.asked("ZZZ")
        else:
            self.hang_up()
