"""What the shop sells, what an order must look like, and the slow part of the work."""

from __future__ import annotations

import asyncio
from typing import Any

CATALOGUE = {"book": 120_000, "lamp": 340_000, "pen": 15_000}
"""Prices in dong. The price is ours to say, so an order does not carry one."""

MOST = 100
"""Pieces in one order."""


class BadOrder(Exception):
    """The order cannot be taken; the text tells the customer what to put right."""


def check_order(body: Any) -> dict[str, Any]:
    """The order in ``body``, nothing else of it. Raises BadOrder."""
    if not isinstance(body, dict):
        raise BadOrder('send a JSON object, such as {"item": "book", "quantity": 2}')
    item, quantity = body.get("item"), body.get("quantity")
    if not isinstance(item, str) or item not in CATALOGUE:
        raise BadOrder(f"item must be one of {', '.join(CATALOGUE)}")
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= MOST:
        raise BadOrder(f"quantity must be a whole number from 1 to {MOST}")
    return {"item": item, "quantity": quantity}


async def make_receipt(order: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The receipt of an order. The pause stands for what is slow: a PDF, a model, a partner's API."""
    await asyncio.sleep(seconds)
    return {**order, "total": CATALOGUE[order["item"]] * order["quantity"]}
