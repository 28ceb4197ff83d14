"""What stands between an actor and a server: it holds every effect until the scheduler decides about it.

A verdict is "." (go on), "<" (crash before), ">" (crash after, the reply is never seen), "?" (the reply is
lost but the actor lives) or "!" (an error instead). A stall is no verdict: the effect simply waits.
"""

from __future__ import annotations

import asyncio

from qlab.testing.explorer.errors import Unsupported
from qlab.testing.explorer.gate import Delivery, Effect
from qlab.testing.explorer.wire import Piece, WireError

CHUNK = 1 << 16
"""Bytes to read at once."""


class Connection:
    """One connection of an actor, and its own one to the real server."""

    store = ""

    def __init__(
        self, delivery: Delivery, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.delivery, self.reader, self.writer = delivery, reader, writer
        self.loop = delivery.loop
        self.up: asyncio.StreamWriter | None = None
        self.gone = self.swallow = False
        self.effect: Effect | None = None
        self._answered: asyncio.Future[None] | None = None
        delivery.connections.append(self)

    async def run(self) -> None:
        """Carry bytes until one side is gone. What cannot be explored is noted and cuts the connection."""
        try:
            await self.serve()
        except Unsupported as error:
            self.delivery.refusal = self.delivery.refusal or str(error)
        except (OSError, WireError):
            pass
        finally:
            self.cut()

    async def serve(self) -> None:
        """Forward what the client sends, effect by effect."""
        raise NotImplementedError

    @property
    def owes(self) -> bool:
        """The server has not answered everything yet."""
        raise NotImplementedError

    def expect(self, owed: str) -> None:
        """Note what the server owes from now on (see Piece.owed)."""
        raise NotImplementedError

    def leave_server(self) -> None:
        """The client is gone: let the server notice, and wait for it."""
        raise NotImplementedError

    async def forward(self, piece: Piece) -> bool:
        """Pass one piece on, as the verdict says. False: the connection is cut."""
        assert self.up is not None
        verdict = "."
        if piece.label is not None:
            self.effect = Effect(piece.label, piece.short, self.store)
            verdict = await self.delivery.gate(self.effect)
        if verdict not in "<!":
            if verdict in ">?":
                self.swallow, self._answered = True, self.loop.create_future()
            self.up.write(piece.raw)
            self.asked(piece.owed)
            if self._answered:
                await self._answered
        if verdict in "<>":
            self.delivery.crash()
        elif verdict in "!?":
            self.cut()
        return verdict == "."

    def asked(self, owed: str) -> None:
        """The server owes this much more."""
        self.expect(owed)
        if self.owes:
            self.loop.begin(self)
        self.settle()

    def settle(self) -> None:
        """Note whether the server has answered everything."""
        if self.owes:
            return
        self.loop.end(self)
        if self._answered and not self._answered.done():
            self._answered.set_result(None)

    def cut(self) -> None:
        """The actor's side is gone. Harmless when repeated."""
        if self in self.delivery.connections:
            self.delivery.connections.remove(self)
            self.writer.transport.abort()
            self.delivery.busy()
            self.gone = self.swallow = True
            if self.up is not None:
                self.leave_server()

    def answer(self, data: bytes) -> None:
        """Give the client what the server said, unless the reply is lost."""
        if not self.swallow and not self.writer.transport.is_closing():
            self.writer.write(data)
            self.delivery.busy()

    def hang_up(self) -> None:
        """The server is gone, or has noticed that its client is."""
        self.loop.end(self)
        if self._answered and not self._answered.done():
            self._answered.set_result(None)
        if self.up is not None:
            self.up.transport.abort()
        self.writer.transport.abort()
