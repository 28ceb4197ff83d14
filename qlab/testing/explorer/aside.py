"""Run an exploration beside the caller's loop: in a thread, because it needs event loops of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[threading.Event], T]) -> T:
    """`work(stop)` in a thread; its result or its exception. A cancelled caller sets `stop` and waits."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    ended: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work(stop)
        except BaseException as error:
            _tell(loop, ended.set_exception, error)
        else:
            _tell(loop, ended.set_result, result)

    thread = threading.Thread(target=run, name="qlab-explorer", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(ended)
    except BaseException:
        stop.set()
        await asyncio.wait([ended])
        ended.cancelled() or ended.exception()  # it is nobody's any more
        raise
    finally:
        thread.join()


def _tell(loop: asyncio.AbstractEventLoop, how: Callable[..., None], what: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(how, what)
