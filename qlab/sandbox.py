"""Run handlers in processes of their own: work that blocks, or kills its process, harms nobody else.

One child for each job that runs; a child that died is replaced. Only texts travel: the child decides how
its job ended (execute) and sends the Settlement, so no exception has to survive pickling.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait as wait_for
from typing import Any

from qlab import payload
from qlab.execute import Handler, Settlement, execute, failure, put_back, runs_on_loop, too_long
from qlab.job import Job, JobRecord
from qlab.retry import Waits
from qlab.tasks import outcome_of

_spawn = multiprocessing.get_context("spawn")
LOOK = 1.0
"""Seconds between two looks at a process that does not answer."""

START_LIMIT = 60.0
"""Seconds for a new process to load the handler; the limit of an attempt begins after that."""


class SandboxDied(Exception):
    """The process that ran the job ended before the job did."""


class Sandbox:
    """A pool of child processes for one handler. Raises TypeError if the handler cannot be sent to them."""

    def __init__(self, handler: Handler, waits: Waits) -> None:
        self._waits = waits
        try:
            self._handler = pickle.dumps((handler, waits))
        except Exception as error:
            raise TypeError(
                "sandbox=True needs a handler (and backoff functions) that another process can import, "
                f"functions at the top of a module: {error}"
            ) from None
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def run(self, job: Job) -> Settlement | None:
        """Run the job in a child; cancelled by the worker, the child is killed and the job given back."""
        child = self._idle.pop() if self._idle else self._start()
        if not child._process.is_alive():  # killed while it had no job: that is no failure of this one
            self._end(child)
            child = self._start()
        limit = job.record.timeout
        try:
            await child.ready()
            async with asyncio.timeout(limit / 1000 if limit else None):
                settlement = await child.run(job.record)
        except TimeoutError:  # of the attempt
            self._end(child)
            return failure(job, too_long(limit), self._waits)
        except asyncio.CancelledError:
            self._end(child)
            return put_back(job)
        except SandboxDied as error:
            self._end(child)
            return failure(job, error, self._waits)
        self._idle.append(child)
        return settlement

    def close(self) -> None:
        """Kill the children that are left."""
        for child in list(self._all):
            self._end(child)
        self._idle.clear()

    def _start(self) -> _Child:
        child = _Child(self._handler)
        self._all.add(child)
        return child

    def _end(self, child: _Child) -> None:
        self._all.discard(child)
        child.kill()


class _Child:
    def __init__(self, handler: bytes) -> None:
        self._pipe, theirs = _spawn.Pipe()
        arguments = (theirs, handler)
        self._process = _spawn.Process(target=_serve, args=arguments, daemon=True, name="qlab-sandbox")
        self._process.start()
        theirs.close()
        self._ready = False

    async def ready(self) -> None:
        """Wait until the process has loaded the handler. Raises SandboxDied if it cannot."""
        if self._ready:
            return
        try:
            async with asyncio.timeout(START_LIMIT):
                wrong = await self._ask(None)
        except TimeoutError:
            raise SandboxDied(f"the process of the job has not started within {START_LIMIT:g} s") from None
        if wrong:
            raise SandboxDied(f"the process of the job cannot load the handler: {wrong}")
        self._ready = True

    async def run(self, record: JobRecord) -> Settlement | None:
        settlement: Settlement | None = await self._ask(record)
        return settlement

    async def _ask(self, record: JobRecord | None) -> Any:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._pipe.fileno(), _once, answered)
        try:
            if record is not None:
                self._pipe.send(record)
            while not (await asyncio.wait([answered], timeout=LOOK))[0]:
                if not self._process.is_alive() and not self._pipe.poll():
                    raise EOFError  # it has a process of its own that keeps the pipe open
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(1)
            code = self._process.exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            raise SandboxDied(f"the process of the job ended {how}") from None
        finally:
            loop.remove_reader(self._pipe.fileno())

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)
        self._process.close()
        self._pipe.close()


def _once(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _serve(pipe: Pipe, handler_bytes: bytes) -> None:
    """The child: jobs in, settlements out, until the pipe or the parent ends. Signals are for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        handler, waits = pickle.loads(handler_bytes)
    except Exception as error:
        pipe.send(payload.error_text(error))
        return
    pipe.send("")
    run: Any = handler if runs_on_loop(handler) else _on_loop(handler)
    while True:
        try:
            record = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(asyncio.run(execute(Job(record, None), run, None, waits)))


def _on_loop(handler: Handler) -> Any:
    async def run(job: Job) -> Any:
        return await outcome_of(handler, job)

    return run


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
