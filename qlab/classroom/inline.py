"""What lesson 01 builds its web services of: a handler becomes an API, with the work inside the request.

    async def place_order(order_id, order): ...
    app = serve(place_order)                       # POST /orders: runs the handler, then answers 201

Nobody should build it like this; that is what the lesson shows.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]


def serve(handler: Handler) -> Starlette:
    """An API whose POST /orders calls ``handler(order_id, order)`` and answers 201 with what it returns.

    An error of the handler is answered with status 500, as every web framework does.
    """

    async def place_order(request: Request) -> Response:
        order_id = f"order-{secrets.token_hex(8)}"
        return JSONResponse(await handler(order_id, await request.json()), status_code=201)

    return Starlette(routes=[Route("/orders", place_order, methods=["POST"])])
