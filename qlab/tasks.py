"""What workers need of tasks: hand them work, wait for what it comes to, and end them for sure."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
RECONNECT = (0.1, 0.2, 0.5, 1.0)
"""Seconds between tries while Redis is away; the last one goes on for ever."""


class Inbox(Generic[T]):
    """An asyncio.Queue with only what the pump uses (no limit, no join), which wakes no more than it must.

    One who waits is woken for a whole batch, and wakes two more if it leaves something behind. So a batch of
    jobs that never wait costs three wake-ups, whatever its size, and one of jobs that do wait has them all
    running after a few turns of the loop.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()

    def put(self, items: Iterable[T]) -> None:
        """Add at the end, in this order."""
        self._items.extend(items)
        self._wake()

    async def get(self) -> T:
        """Take the first one; wait for it if need be."""
        waiter = None
        while not self._items:
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # it was ours to take, so somebody else must
                raise
        item = self._items.popleft()
        if waiter is not None and self._items:
            self._wake()
            self._wake()
        return item

    def clear(self) -> list[T]:
        """Take everything that is there."""
        items = list(self._items)
        self._items.clear()
        return items

    def _wake(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


async def pause(failures: int) -> None:
    """Wait before the next try, after so many in a row (1 or more) that failed."""
    await asyncio.sleep(RECONNECT[min(failures, len(RECONNECT)) - 1])


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


async def outcome_of(function: Callable[..., Any], *values: Any) -> Any:
    """Call, and wait for what it returns if that can be awaited.

    What a plain function did is done when it returns, so it must not count as a failure.
    """
    made = function(*values)
    return await made if inspect.isawaitable(made) else made
