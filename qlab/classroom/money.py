"""Money as the lab sees it: one provider, and a door for each worker, so that we know who asked."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import Any

from qlab.classroom.processes import Report
from qlab.testing.provider import Charge, PaymentProvider

_asking: ContextVar[Door | None] = ContextVar("_asking", default=None)


class Door:
    """The provider as one worker sees it: the same money, the same memory of keys."""

    def __init__(self, provider: PaymentProvider, lane: str, report: Report, note: str) -> None:
        self._provider, self._lane, self._report, self._note = provider, lane, report, note
        self.answering = asyncio.Event()
        self.answering.set()

    async def charge(self, order: str, amount: int, key: str | None = None) -> Charge:
        """Pass the request on; money that moves is reported under this worker's name, then it is answered."""
        _asking.set(self)
        charge = await self._provider.charge(order, amount, key)
        await self.answering.wait()
        return charge

    def moved(self) -> None:
        """Money moved at this worker's request."""
        self._report("effect", self._lane, self._note, time.time())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


def report_charges(provider: PaymentProvider) -> None:
    """From now on each charge is reported by the door through which it was asked for."""

    def moved(_charge: Charge) -> None:
        if door := _asking.get():
            door.moved()

    provider.on_charge.append(moved)
