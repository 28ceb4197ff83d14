"""A service that gets back on its feet: down at first, then able to answer a limited number at a time."""

from __future__ import annotations

import asyncio
import time

from qlab.classroom.herd import BIN


class NarrowApi:
    """`send` is the call, and works as a handler; it answers `capacity` requests a bin (herd.BIN seconds).

    `arrivals` are the seconds since `recover`, one for each request since then; `refused` counts the 503s.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.refused = 0
        self.failed_while_down = 0
        self.arrivals: list[float] = []
        self._since: float | None = None
        self._bin, self._taken = -1, 0

    def recover(self) -> None:
        """From now on the service answers what it can."""
        self._since = time.monotonic()

    async def down_for(self, requests: int) -> None:
        """Wait until so many requests have failed because the service was down."""
        while self.failed_while_down < requests:
            await asyncio.sleep(0.005)

    async def send(self, _request: object = None) -> str:
        """One request.  Raises ConnectionError (503) while the service is down or has no room."""
        if self._since is None:
            self.failed_while_down += 1
            raise ConnectionError("503 the service is down")
        at = time.monotonic() - self._since
        self.arrivals.append(at)
        if int(at / BIN) != self._bin:
            self._bin, self._taken = int(at / BIN), 0
        self._taken += 1
        if self._taken > self.capacity:
            self.refused += 1
            raise ConnectionError("503 the service has no room")
        return "sent"
