"""A delivery of a job to a worker, and the gate where its effects wait for the scheduler."""

from __future__ import annotations

import asyncio
import inspect
from bisect import insort
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qlab.testing.explorer.clock import OWNER
from qlab.testing.explorer.errors import Unsupported

if TYPE_CHECKING:
    from qlab.testing.explorer.clock import VirtualLoop
    from qlab.testing.explorer.proxy import Connection
    from qlab.testing.explorer.servers import Upstream
    from qlab.testing.provider import PaymentProvider


class Effect:
    """Something that an actor asks a server to do, held at the gate."""

    def __init__(self, label: str, short: str, store: str) -> None:
        self.label, self.short, self.store = label, short, store
        self.verdict: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.result = ""


async def how_it_ends(handler: Callable[[Any], Any], world: Any) -> str | None:
    """Run a handler; None when it returned, else what it raised in one line, the same in every process.

    SystemExit and KeyboardInterrupt count as well: they would end the loop, not the job.
    """
    try:
        made = handler(world)
        if not inspect.isawaitable(made):
            owner = OWNER.get()
            owner.refuse(f"the handler of {owner.name} is a plain function; write `async def`")
        await made
    except BaseException as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:120]
    return None


class Delivery:
    """One worker process running one delivery of a job. Subclasses say how it is run and how it dies."""

    def __init__(
        self, loop: VirtualLoop, upstream: Upstream, provider: PaymentProvider, chain: str, number: int
    ) -> None:
        self.loop, self.upstream, self.provider = loop, upstream, provider
        self.chain, self.number = chain, number
        self.name = chain + "'" * number
        self.tasks: set[asyncio.Task[Any]] = set()
        self.pending: list[Effect] = []
        """What its tasks ask for at the same time, by label: the order of arrival is the machine's."""
        self.connections: list[Connection] = []
        self.dead = self.stalled = self.seen = False
        self.wakes_at = 0.0
        self.refusal: str | None = None

    @property
    def finished(self) -> bool:
        """The handler has returned or raised."""
        raise NotImplementedError

    def failure(self) -> str | None:
        """What it raised, in words; None when it returned."""
        raise NotImplementedError

    def busy(self) -> None:
        """It was given bytes, so it may move by itself. In process the loop knows that already."""

    def refuse(self, sentence: str) -> None:
        """Something that cannot be explored: the exploration ends with this sentence."""
        self.refusal = self.refusal or sentence
        raise Unsupported(sentence)

    async def gate(self, effect: Effect) -> str:
        """Wait for the scheduler's verdict. A dead actor waits for ever."""
        if not self.dead:
            insort(self.pending, effect, key=lambda one: one.label)
            try:
                return await effect.verdict
            finally:
                if effect in self.pending:
                    self.pending.remove(effect)
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    def crash(self) -> None:
        """The process is gone: first its connections, so that even its `finally` blocks have no effect."""
        self.dead = True
        self.leave()

    def leave(self) -> None:
        """The process ends: nothing of it stays."""
        for connection in list(self.connections):
            connection.cut()
        for task in list(self.tasks):
            task.cancel()
