"""End background tasks for sure."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end(tasks: Iterable[asyncio.Task[Any]], limit: float = 5.0) -> None:
    """Cancel the tasks and wait until they are gone, at most `limit` seconds.

    One cancel may be lost (a library may turn it into an error of its own while it cleans up), so it is
    repeated.
    """
    pending = {task for task in tasks if not task.done()}
    deadline = asyncio.get_running_loop().time() + limit
    while pending and asyncio.get_running_loop().time() < deadline:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
