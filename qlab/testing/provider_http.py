"""The provider stub over HTTP: POST /charges, GET /charges?order=, served by uvicorn in the running loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from qlab.testing.provider import Charge, PaymentProvider, ProviderError

if TYPE_CHECKING:
    from starlette.responses import Response

START_TIMEOUT = 10.0  # seconds


def as_json(charge: Charge) -> dict[str, Any]:
    """A charge as the HTTP interface shows it."""
    return {
        "id": charge.id,
        "order": charge.order,
        "amount": charge.amount,
        "key": charge.key,
        "at": charge.at.isoformat(),
    }


def application(provider: PaymentProvider) -> Starlette:
    """The ASGI application for one provider."""

    async def create(request: Request) -> "Response":
        try:
            body = await request.json()
            order, amount = body["order"], body["amount"]
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": "send JSON with order and amount"}, status_code=400)
        key = request.headers.get("idempotency-key")
        try:
            charge = await provider.charge(order, amount, unquote(key) if key is not None else None)
        except ProviderError as error:
            return JSONResponse({"error": error.message}, status_code=error.status)
        return JSONResponse(as_json(charge), status_code=201)

    async def listing(request: Request) -> "Response":
        order = request.query_params.get("order")
        found = [as_json(c) for c in provider.charges if order is None or c.order == order]
        return JSONResponse({"charges": found, "calls": provider.calls})

    return Starlette(
        routes=[Route("/charges", create, methods=["POST"]), Route("/charges", listing, methods=["GET"])]
    )


class _QuietServer(uvicorn.Server):
    """uvicorn that leaves the process' signal handlers alone: they belong to the kernel or to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(uds: str | None) -> socket.socket:
    if uds is None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(uds)
    listener.listen(128)
    return listener


@asynccontextmanager
async def serve(provider: PaymentProvider, *, uds: str | None = None) -> AsyncIterator[str]:
    """Serve until the block ends. Requests still running then are cut off."""
    config = uvicorn.Config(
        application(provider),
        log_level="critical",
        lifespan="off",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = _QuietServer(config)
    with _listen(uds) as listener:
        url = "http://provider" if uds else f"http://127.0.0.1:{listener.getsockname()[1]}"
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _started(server, task)
            yield url
        finally:
            server.should_exit = True  # a request still held is cancelled after timeout_graceful_shutdown
            await task


async def _started(server: uvicorn.Server, task: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(START_TIMEOUT):
        while not server.started:
            if task.done():
                await task
                raise RuntimeError("the provider's HTTP server ended before it started")
            await asyncio.sleep(0.005)
