"""The payment provider over HTTP, as an actor meets it: the same gate, POST /charges only."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import unquote

import h11

from qlab.testing.explorer.errors import Unsupported
from qlab.testing.explorer.proxy import CHUNK, Connection
from qlab.testing.explorer.wire import WireError
from qlab.testing.explorer.world import ONLY_CHARGES, NoReply, decide
from qlab.testing.provider import ProviderError
from qlab.testing.provider_http import as_json


def listen_on_loopback() -> tuple[socket.socket, str]:
    """A TCP socket on a port that the system chose, and its URL."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


class ProviderConnection(Connection):
    """HTTP/1.1 with h11; there is no real server behind it but the stub itself."""

    store = "provider"
    owes = False

    async def serve(self) -> None:
        """Answer request by request."""
        http = h11.Connection(h11.SERVER)
        try:
            while (request := await self._next(http)) is not None:
                status, reply = await self._answer(*request)
                body = json.dumps(reply).encode()
                headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
                head = h11.Response(status_code=status, headers=headers)
                for part in (head, h11.Data(body), h11.EndOfMessage()):
                    self.answer(http.send(part) or b"")
                if http.our_state is h11.MUST_CLOSE:
                    return
                http.start_next_cycle()
        except NoReply:
            return
        except h11.ProtocolError as error:
            raise WireError(f"this is not HTTP: {error}") from None

    async def _next(self, http: h11.Connection) -> tuple[h11.Request, bytes] | None:
        request, body = None, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await self.reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return request, body
            else:
                return None

    async def _answer(self, request: h11.Request, body: bytes) -> tuple[int, dict[str, Any]]:
        if (request.method, request.target) != (b"POST", b"/charges"):
            raise Unsupported(ONLY_CHARGES)
        key = dict(request.headers).get(b"idempotency-key")
        try:
            asked = json.loads(body)
            order, amount = asked["order"], asked["amount"]
        except (ValueError, KeyError, TypeError):
            return 400, {"error": "send JSON with order and amount"}
        try:
            charge = await decide(
                self.delivery, order, amount, None if key is None else unquote(key.decode())
            )
        except NoReply:
            raise
        except ProviderError as error:
            return error.status, {"error": error.message}
        return 201, as_json(charge)

    def leave_server(self) -> None:
        """There is none."""
