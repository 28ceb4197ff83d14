"""Those who wait for a lock of PostgreSQL, served in order of arrival.

When a transaction ends, all that wait for it wake up at once and race for the row, and who wins depends on
the machine. So the back end of everybody but the first is stopped (SIGSTOP) while it waits, and goes on
(SIGCONT) when those before it have their answer or wait for something else. Where that is not possible,
because the server is not the lab's own, the race stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from qlab.testing.explorer.pg_proxy import PgConnection

if TYPE_CHECKING:
    from qlab.testing.explorer.clock import VirtualLoop
    from qlab.testing.explorer.servers import FaultLab, Upstream


class Line:
    """The waiters of one exploration, in order of arrival, each with the back ends that are in its way."""

    def __init__(self, lab: FaultLab, upstream: Upstream, loop: VirtualLoop) -> None:
        self._lab, self._loop, self._actors = lab, loop, upstream.pids
        self._waiting: dict[PgConnection, set[int]] = {}
        self._stopped: list[PgConnection] = []
        loop.probe = self._locked

    def let_next_go(self) -> bool:
        """Let the first go on that nobody before it keeps waiting; False: there is none."""
        for one in self._stopped:
            if not any(self._is_behind(one, other) for other in self._ahead()):
                self._go(one)
                return True
        return False

    def let_all_go(self) -> None:
        """The schedule is over."""
        for one in list(self._stopped):
            self._go(one)

    def _ahead(self) -> list[PgConnection]:
        """Those who wait and are not stopped, in order of arrival."""
        self._waiting = {one: pids for one, pids in self._waiting.items() if one in self._loop.inflight}
        return [one for one in self._waiting if one in self._loop.blocked and one not in self._stopped]

    def _locked(self, pending: Collection[Any]) -> Collection[Any]:
        """Of these connections, the ones whose back end waits for a lock."""
        running = {
            one.pid: one for one in pending if isinstance(one, PgConnection) and one not in self._stopped
        }
        running.pop(None, None)
        locked = self._lab.locked(running, self._actors) if running else {}
        found = [one for pid, one in running.items() if pid in locked]  # in order of arrival, as pending is
        self._waiting.update((one, set(locked[one.pid or 0])) for one in found)
        found = [one for one in found if not self._in_deadlock(one)]  # the server will end one of them
        self._loop.blocked.update(found)
        for one in found:
            if any(self._is_behind(one, other) for other in self._ahead() if other is not one):
                self._stop(one)
        return [*found, *(one for one in self._stopped if one in pending)]

    def _in_deadlock(self, one: PgConnection) -> bool:
        """True if `one` waits for somebody who, over any number of others, waits for `one`."""
        before = {other.pid: pids for other, pids in self._waiting.items() if other in self._loop.inflight}
        reached: set[int] = set()
        ahead = list(self._waiting[one])
        while ahead:
            pid = ahead.pop()
            if pid not in reached:
                reached.add(pid)
                ahead += before.get(pid, ())
        return one.pid in reached

    def _is_behind(self, one: PgConnection, other: PgConnection) -> bool:
        """True if both would race: they wait for the same back end, or `one` for `other`, who waits too.

        The second to wait for a row waits for the first, which holds the row's place in the queue; but when
        the row has changed meanwhile, both look for its new version, and the place no longer counts.
        """
        return other.pid in self._waiting[one] or not self._waiting[one].isdisjoint(self._waiting[other])

    def _stop(self, one: PgConnection) -> None:
        if self._lab.owns_postgres and one.pid is not None:
            os.kill(one.pid, signal.SIGSTOP)
            self._stopped.append(one)

    def _go(self, one: PgConnection) -> None:
        self._stopped.remove(one)
        self._loop.blocked.discard(one)
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid or 0, signal.SIGCONT)
