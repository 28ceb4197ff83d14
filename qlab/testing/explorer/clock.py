"""An event loop whose time stands still until somebody moves it, and which knows when nobody can move.

Actors, proxies and the scheduler share this loop. When nothing is ready to run, no socket has anything to
read and no server owes an answer, then every actor waits: for the scheduler, for a timer, or for a lock that
another one holds. That is an exact test, so a schedule never sleeps and never guesses (local Unix sockets
deliver at once; over TCP on the loopback one more millisecond is waited).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import selectors
import sys
import time
from collections.abc import Callable, Collection, Hashable
from typing import Any

from qlab.testing.explorer.errors import Unresponsive

OWNER: contextvars.ContextVar[Any] = contextvars.ContextVar("owner", default=None)
"""On whose behalf code runs: a delivery of an actor, or None."""

_LOOK = 0.002
"""Seconds of silence after which it is asked whether a server that owes an answer waits for a lock."""
_TIMERS_OF_DRIVERS = {"psycopg.waiting"}
"""Modules whose timers only look again at a socket, so that time need not pass for them."""


class _Selector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            self.loop.check_patience()
            return events
        return self.loop.idle(super().select)


class Timer(asyncio.TimerHandle):
    """A timer of the virtual clock; `owner` is whose, `idle` says that nothing happens when it fires."""

    def __init__(self, when: float, callback: Any, args: Any, loop: VirtualLoop, context: Any) -> None:
        super().__init__(when, callback, args, loop, context)
        self.due = when
        self.owner = _owner(context)
        # frame 0 is this, 1 call_at, 2 call_later, 3 whoever wants the timer
        self.idle = sys._getframe(3).f_globals.get("__name__") in _TIMERS_OF_DRIVERS


class VirtualLoop(asyncio.SelectorEventLoop):
    """`now` moves by `advance` only. `begin`/`end` note what a server is working on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.inflight: dict[Hashable, None] = {}
        """What servers work on, in the order in which it began."""
        self.blocked: set[Hashable] = set()
        """Of those in flight: waiting for a lock that another actor holds."""
        self.probe: Callable[[Collection[Hashable]], Collection[Hashable]] = lambda pending: ()
        self.patience = 30.0
        """Real seconds within which everybody must come to rest."""
        self.grace = 0.0
        """Seconds to look once more at the sockets before it is quiet: for TCP."""
        self._timers: list[Timer] = []
        self._waiter: asyncio.Future[None] | None = None
        self._restless_since: float | None = None
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self.set_task_factory(_owned_task)  # type: ignore[arg-type]

    def time(self) -> float:
        """Seconds on the virtual clock."""
        return self.now

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Timer:  # type: ignore[override]
        """A timer on the virtual clock."""
        timer = Timer(when, callback, args, self, context)
        self._timers.append(timer)
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refused to actors: nobody could tell when a thread has come to rest."""
        owner = OWNER.get()
        if owner is not None:
            owner.refuse(f"{owner.name} uses a thread; call asyncio code only, a thread cannot be scheduled")
        return super().run_in_executor(executor, func, *args)

    def reset(self) -> None:
        """Time zero, no timers, nothing in flight: a new schedule begins."""
        self.now, self._timers = 0.0, []
        self.inflight.clear()
        self.blocked.clear()

    def begin(self, what: Hashable) -> None:
        """A server (or a process) is at work for `what`."""
        self.inflight[what] = None

    def end(self, what: Hashable) -> None:
        """It has answered. Whoever was blocked may go on, so look again."""
        self.inflight.pop(what, None)
        self.blocked.clear()

    def working(self) -> list[Hashable]:
        """In flight, and not waiting for another actor."""
        return [what for what in self.inflight if what not in self.blocked]

    async def quiesce(self) -> None:
        """Return when every task waits for the scheduler, for a timer or for another actor's lock.

        Raises Unresponsive when that takes longer than `patience`.
        """
        self._restless_since = time.monotonic()
        self._waiter = self.create_future()
        await self._waiter
        self._restless_since = None

    def idle(self, select: Callable[[float], list[Any]]) -> list[Any]:
        """Nothing is ready: wait for a server, or tell the waiter of `quiesce`."""
        self.check_patience()
        if pending := self.working():
            events = select(_LOOK)
            if not events:
                self.blocked.update(self.probe(pending))
            return events
        if self.grace and (events := select(self.grace)):
            return events
        if self._waiter is None or self._waiter.done():
            return select(0.05)
        self._waiter.set_result(None)
        return []

    def check_patience(self) -> None:
        """Raise Unresponsive when `quiesce` waits for too long."""
        if self._restless_since is not None and time.monotonic() - self._restless_since > self.patience:
            self._restless_since = None
            raise Unresponsive(
                f"did not come to rest within {self.patience:g} s: it computes without end, calls "
                "something that blocks, or waits for a server that does not answer"
            )

    def next_timer(self, without: Collection[object]) -> float | None:
        """When the next timer is due, but for those of the owners `without`."""
        self._timers = [timer for timer in self._timers if not timer.cancelled()]
        due = [t.due for t in self._timers if not t.idle and not (t.owner and t.owner in without)]
        return min(due, default=None)

    def advance(self, seconds: float, frozen: Collection[object]) -> None:
        """Let time pass. The owners in `frozen` do not notice: their timers move along."""
        self.now += seconds
        waiting = []
        for timer in sorted(self._timers, key=lambda timer: timer.due):
            if timer.owner in frozen:
                timer.due += seconds
            if timer.due > self.now:
                waiting.append(timer)
            else:
                self.call_soon(_fire, timer, context=contextvars.Context())
        self._timers = waiting


class ActorsAreQuiet(logging.Filter):
    """Drops what is logged on behalf of actors: they fail by the hundred here, and that is the point."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False: drop it."""
        return OWNER.get() is None


def _owner(context: contextvars.Context | None) -> Any:
    return OWNER.get() if context is None else context.get(OWNER)


def _fire(timer: Timer) -> None:
    if not timer.cancelled():
        timer._run()


def _owned_task(loop: VirtualLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Every task belongs to whoever's code made it, so that a crash can end all of them."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    owner = _owner(options.get("context"))
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
    return task
