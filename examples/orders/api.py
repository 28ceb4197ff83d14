"""The fast half: check an order, put it into the queue, answer 202.

POST /orders        {"item": "book", "quantity": 2} → 202 {"job": "order-…", "status": "pending"}
GET  /orders/{id}   200 {"status": "pending" | "done" | "failed"}, 404 for an order that nobody placed

A request that cannot be served now gets a 503 within about a second, never a wait without end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.orders import store
from examples.orders.settings import QUEUE, Settings
from examples.orders.work import BadOrder, check_order
from examples.orders.worker import RETRIES
from qlab import Queue, RedisUnavailable

PATIENCE = 1.0
"""Seconds that a request waits for Redis or PostgreSQL."""

LONGEST_BODY = 10_000
"""Bytes."""

POOL = 4
"""Connections to PostgreSQL that all requests share."""


def create_app() -> Starlette:
    """The application, by the settings of this process."""
    settings = Settings.read()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # Neither waits for its server here: the API comes up without them and says 503 until they are there.
        app.state.queue = Queue(QUEUE)
        app.state.pool = AsyncConnectionPool(
            settings.pg_dsn, min_size=0, max_size=POOL, timeout=PATIENCE, open=False
        )
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # it warns of each attempt to reconnect
        await app.state.pool.open(wait=False)
        yield
        await app.state.pool.close()
        await app.state.queue.close()

    routes = [
        Route("/orders", place_order, methods=["POST"]),
        Route("/orders/{order_id}", show_order, methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=_ERRORS)


async def place_order(request: Request) -> Response:
    """Take an order: nothing slow happens here."""
    order = check_order(await _json(request))
    queue: Queue = request.app.state.queue
    order_id = f"order-{secrets.token_hex(8)}"
    async with asyncio.timeout(PATIENCE):
        job = await queue.add("receipt", {"v": 1, "order": order}, job_id=order_id, **RETRIES)
    where = {"Location": f"/orders/{job.id}"}
    return JSONResponse({"job": job.id, "status": "pending"}, status_code=202, headers=where)


async def show_order(request: Request) -> Response:
    """Where an order is: the receipt in the database decides, else the state of its job."""
    order_id = request.path_params["order_id"]
    if not re.fullmatch(r"order-[0-9a-f]{16}", order_id):
        return _unknown()
    state, receipt = "completed", await _receipt(request, order_id)
    if receipt is None:
        async with asyncio.timeout(PATIENCE):
            job = await request.app.state.queue.get_job(order_id)
        if job is None:
            return _unknown()
        state = job.state
        receipt = await _receipt(request, order_id)  # it may have been written meanwhile
    if receipt is not None:
        return JSONResponse({"job": order_id, "status": "done", "receipt": receipt})
    return JSONResponse({"job": order_id, "status": "failed" if state == "failed" else "pending"})


def _unknown() -> Response:
    return JSONResponse({"error": "there is no such order"}, status_code=404)


async def _receipt(request: Request, order_id: str) -> dict[str, object] | None:
    async with request.app.state.pool.connection() as connection:
        return await store.find(connection, order_id)


async def _json(request: Request) -> object:
    """The body as JSON. Raises BadOrder for one that is none, or too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise BadOrder(f"the order is longer than {LONGEST_BODY} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise BadOrder('the body is not JSON; send for example {"item": "book", "quantity": 2}') from None


def _refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


def _away(_: Request, error: Exception) -> Response:
    logging.getLogger("examples.orders").warning("a server is away: %s", error)
    text = "the shop cannot take this now, please try again in a moment"
    return JSONResponse({"error": text}, status_code=503, headers={"Retry-After": "1"})


_ERRORS = {
    BadOrder: _refuse,
    RedisUnavailable: _away,
    TimeoutError: _away,
    PoolTimeout: _away,
    psycopg.OperationalError: _away,
}
