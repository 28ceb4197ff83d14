"""The laboratory of one lesson: servers, worker processes, a payment provider, and somebody who watches.

    lab = await Lab.open("03")                      # says which servers, which versions
    async with lab.record(queue) as run:            # writes down what happens to this queue
        a = await lab.start_worker("charge:worker", "A")
        ...
    run.counts                                      # {"runs": 2, "charges": 2, ...}
    run.timeline("A bị giết sau khi trừ tiền")      # the same run, drawn

A lab has its own key prefix and its own database, so two notebooks never see each other's jobs.  Its worker
processes, keys, database and files go when it is closed and when the kernel dies, also by SIGKILL; a cell
that is interrupted ends the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import redis.asyncio as redis_async

from qlab.classroom import broker, live, notebook
from qlab.classroom.leash import sweep_keys
from qlab.classroom.money import Door, report_charges
from qlab.classroom.processes import LabError, Watcher, WorkerProcess, worker_environment
from qlab.classroom.recorder import Recording
from qlab.classroom.texts import text
from qlab.embedded import Servers, create_database, drop_database, start
from qlab.job import Job
from qlab.keys import Keys
from qlab.queue import Queue
from qlab.testing.provider import PaymentProvider

UP_TIMEOUT = 30.0
"""Seconds that a worker process gets to connect; it needs about one."""

_CONNECTED = "is connected to"
_KINDS = {"external": "external", "fakeredis": "fake"}


class Lab:
    """What a lesson works with.  Make one with :meth:`open`."""

    current: Lab | None = None
    """The lab of this process; opening another one closes it."""

    def __init__(self, lesson: str, servers: Servers) -> None:
        self.lesson, self.servers, self._wants_postgres = lesson, servers, True
        self.prefix = f"lab{lesson}-{secrets.token_hex(4)}"
        self.folder = Path(tempfile.mkdtemp(prefix="qlab-lab-"))
        self.workers: dict[str, WorkerProcess] = {}
        self.services: dict[str, WorkerProcess] = {}  # see apis.py
        self.provider = PaymentProvider()
        report_charges(self.provider)
        self._watcher = Watcher()
        self._stack = AsyncExitStack()
        self._doors: dict[str, tuple[Door, str]] = {}
        self._recording: Recording | None = None
        self._before: dict[str, str | None] = {}
        self._database: str | None = None
        self._open = True
        self.redis = redis_async.Redis.from_url(servers.redis_url, decode_responses=True)

    @classmethod
    async def open(cls, lesson: str, *, postgres: bool = True) -> Lab:
        """Open the lab of a lesson (``"03"``) and say in two lines what it runs on, one without ``postgres``.

        Raises ServerError, one sentence, when a server that was asked for is not there.
        """
        if cls.current is not None:
            await cls.current.close()
        lab = cls(lesson, start(postgres))
        lab._wants_postgres = postgres
        try:
            lab._move_in()
            await lab.redis.ping()
        except BaseException:
            await lab.close()
            raise
        cls.current = lab
        notebook.attach(lab.end_workers, lab.write_worker)
        print("\n".join(lab.describe()))
        return lab

    def describe(self) -> list[str]:
        """A line for each server, which one and which version, and for each thing that one should know."""
        versions = self.servers.versions()
        kind = text(f"lab.kind_{_KINDS.get(self.servers.redis_kind, 'embedded')}")
        lines = [text("lab.redis", version=versions["redis"], kind=kind)]
        if "postgres" in versions:
            kind = text(f"lab.kind_{_KINDS.get(self.servers.pg_kind, 'embedded')}")
            lines.append(text("lab.postgres", version=versions["postgres"], kind=kind))
        elif self._wants_postgres:
            lines.append(text("lab.no_postgres"))
        return lines + self.servers.notices

    def _move_in(self) -> None:
        """Take a prefix and a database, tell child processes of them, and arrange for the worst."""
        environment = self.servers.environment() | {"QLAB_PREFIX": self.prefix}
        plan = {"redis": self.servers.redis_url, "prefix": self.prefix, "folder": str(self.folder)}
        if self.servers.pg_dsn:
            self._database = self.prefix.replace("-", "_")
            plan |= {"postgres": self.servers.pg_dsn, "database": self._database}
        self._watcher.order(sweep=plan)
        if self.servers.pg_dsn and self._database:
            environment["QLAB_PG_DSN"] = create_database(self.servers.pg_dsn, self._database)
        self._before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)

    def write_worker(self, name: str, source: str) -> Path:
        """Write worker code where worker processes find it; ``name`` is a module's file name.

        Raises LabError for a name that cannot be imported and for source that is not Python.
        """
        self._check_open()
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}\.py", name):
            raise LabError(text("lab.file_name", name=name))
        try:
            compile(source, name, "exec")
        except SyntaxError as error:
            raise LabError(text("lab.syntax", name=name, line=error.lineno, reason=error.msg)) from None
        path = self.folder / name
        path.write_text(source, encoding="utf-8")
        # A file rewritten within a second would be shadowed by the compiled copy of its older self.
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        return path

    async def start_worker(self, target: str, lane: str, **environment: str) -> WorkerProcess:
        """Run ``python -m qlab worker target`` as a process of its own and wait until it is connected.

        ``lane`` names it in pictures ("A").  More keywords become environment variables of the process; it
        also gets PROVIDER_URL.  Raises LabError, with the last lines of its log, when it does not come up.
        """
        self._check_open()
        if not re.fullmatch(r"[A-Za-z0-9]{1,8}", lane) or lane == "broker":
            raise LabError(text("lab.lane_name", lane=lane))
        if lane in self.workers and self.workers[lane].alive:
            raise LabError(text("lab.lane_taken", lane=lane))
        _, url = await self._door(lane)
        own = worker_environment(self.folder, PROVIDER_URL=url, **environment)
        worker = await WorkerProcess.start(
            lane, ["worker", target], self.folder, own, self._watcher, self._report
        )
        self.workers[lane] = worker
        self._report("started", lane, "", time.time())
        await self._until_up(worker)
        return worker

    async def run_script(self, name: str, *arguments: str, may_fail: bool = False, **environment: str) -> int:
        """Run a file that ``%%worker`` wrote as a program, wait for its end and return its exit status.

        A program that a signal ended gives minus the signal's number. LabError when there is no such file,
        and, with the last lines of its log, when it ends with an error that it may not have.
        """
        self._check_open()
        if not (self.folder / name).is_file():
            raise LabError(text("lab.no_script", name=name))
        own, lane = worker_environment(self.folder, **environment), Path(name).stem
        script = await WorkerProcess.start(
            lane, arguments, self.folder, own, self._watcher, self._report, program=(name,)
        )
        self.workers[lane] = script
        try:
            status = await script.exited(UP_TIMEOUT)
        finally:
            script.end_now()
        if status > 0 and not may_fail:
            raise LabError(text("lab.script_failed", name=name, code=status, lines=script.log_tail()))
        return status

    async def _until_up(self, worker: WorkerProcess) -> None:
        """Wait until the worker says that it is connected; by then it may have died, as a lesson wants."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UP_TIMEOUT):
                while worker.alive and not worker.said(_CONNECTED):
                    await asyncio.sleep(0.01)
        if not worker.said(_CONNECTED):
            error = worker.failure(UP_TIMEOUT)
            worker.end_now()
            raise error

    async def hold_answers(self, lane: str) -> None:
        """From now on the provider takes this worker's money but keeps it waiting for the answer."""
        door, _ = await self._door(lane)
        door.answering.clear()

    async def release_answers(self, lane: str) -> None:
        """Let the provider answer this worker, at once and from now on."""
        door, _ = await self._door(lane)
        door.answering.set()

    async def _door(self, lane: str) -> tuple[Door, str]:
        if lane not in self._doors:
            door = Door(self.provider, lane, self._report, text("lab.effect"))
            serving = PaymentProvider.serve(door)  # type: ignore[arg-type]
            self._doors[lane] = door, await self._stack.enter_async_context(serving)
        return self._doors[lane]

    @asynccontextmanager
    async def record(self, queue: Queue | str) -> AsyncIterator[Recording]:
        """Write down what happens to ``queue`` in the block; workers still running at its end are stopped."""
        self._check_open()
        keys = queue.keys if isinstance(queue, Queue) else Keys(queue, self.prefix)
        recording = Recording(self.redis, keys, self._lane_of)
        await recording.begin()
        self._recording = recording
        watching = asyncio.create_task(recording.watch())
        try:
            async with live.shown(recording):
                yield recording
        finally:
            recording.finish()
            await watching
            await self.stop_workers()
            await recording.look()
            self._recording = None

    async def broker_view(self, job: Job) -> dict[str, object]:
        """All that the broker knows about a job, except ids and times."""
        return await broker.view(self.redis, Keys(job.queue_name, self.prefix), job.id)

    def _lane_of(self, name: str) -> str:
        """The lane of the worker that calls itself ``name`` in the event stream."""
        numbers = {int(digits) for digits in re.findall(r"\d+", name)}
        for worker in self.workers.values():
            if worker.pid in numbers or worker.lane == name:
                return worker.lane
        return name

    def _report(self, kind: str, lane: str, note: str, at: float) -> None:
        if kind in ("died", "stopped"):
            with contextlib.suppress(KeyError, LabError):
                self._watcher.order(forget=self.workers[lane].pid)
        if self._recording:
            self._recording.witness(kind, lane, note, at)

    def end_workers(self) -> None:
        """SIGKILL every worker process, and every API, now."""
        for process in [*self.workers.values(), *self.services.values()]:
            process.end_now()

    async def stop_workers(self) -> None:
        """Stop every worker process gently and wait for it."""
        await asyncio.gather(*(worker.stop() for worker in self.workers.values()))

    async def close(self) -> None:
        """Stop the workers and delete keys, database and files.  Harmless when repeated."""
        if not self._open:
            return
        self._open = False
        if Lab.current is self:
            Lab.current = None
            notebook.detach()
        self.end_workers()
        await asyncio.gather(self.stop_workers(), *(service.stop() for service in self.services.values()))
        await self._stack.aclose()
        await self.redis.aclose()
        sweep_keys(self.servers.redis_url, self.prefix)
        if self._database and self.servers.pg_dsn:
            drop_database(self.servers.pg_dsn, self._database)
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, value in self._before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        self._watcher.close()
        self.servers.close()

    def _check_open(self) -> None:
        if not self._open:
            raise LabError(text("lab.closed"))

    async def __aenter__(self) -> Lab:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Lab({self.lesson})"
