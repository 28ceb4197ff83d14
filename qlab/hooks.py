"""Callbacks on what happens to a worker's jobs. A callback that fails is logged and harms nobody."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

log = logging.getLogger("qlab.worker")

EVENTS = ("completed", "failed", "retrying", "stalled", "lock-lost", "error")


class Hooks:
    """The callbacks of one worker, by event."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callable[..., Any]]] = defaultdict(list)
        self._running: set[asyncio.Future[Any]] = set()

    def on(self, event: str, callback: Callable[..., Any]) -> None:
        """Call `callback`, a function or a coroutine function, on each `event`.

        Raises ValueError for an unknown event.
        """
        if event not in EVENTS:
            raise ValueError(f"unknown event {event!r}; a worker has {', '.join(EVENTS)}")
        self._callbacks[event].append(callback)

    def fire(self, event: str, *details: Any) -> None:
        """Call everybody who asked for the event."""
        for callback in self._callbacks.get(event, ()):
            try:
                result = callback(*details)
            except BaseException:  # not even a SystemExit or CancelledError of its own may end the pump
                log.exception("the %s callback %r failed", event, callback)
                continue
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(_logged(event, result))
                self._running.add(task)
                task.add_done_callback(self._running.discard)


async def _logged(event: str, result: Any) -> None:
    try:
        await result
    except asyncio.CancelledError:
        raise
    except BaseException:
        log.exception("a %s callback failed", event)
