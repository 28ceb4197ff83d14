"""Real worker processes for lessons: started, paused, killed, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qlab.classroom.texts import text

_LEASH = str(Path(__file__).with_name("leash.py"))
LOG_LINES = 6
PROGRAM = ("-m", "qlab")

Report = Callable[[str, str, str, float], None]
"""Called with kind of event, lane, note and time (seconds since the epoch)."""


class LabError(RuntimeError):
    """Something the learner can put right, in one sentence; a notebook shows it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Watcher:
    """The process that outlives the kernel by a moment, to kill its workers and sweep after it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", _LEASH, "watch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def order(self, **order: object) -> None:
        """Send one order; see leash.py."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise LabError(text("lab.unwatched")) from None

    def close(self) -> None:
        """Let the watcher end; it does now what it was told to do at the kernel's death."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it was ended by somebody else
            self._process.stdin.close()
        self._process.wait(30)


class WorkerProcess:
    """One worker in its own process, on one lane of the timeline."""

    def __init__(self, lane: str, process: asyncio.subprocess.Process, log: Path, report: Report) -> None:
        self.lane, self.pid = lane, process.pid
        self._process, self._log, self._report = process, log, report
        self.url = ""
        """Where it can be asked, of a process that serves HTTP."""
        self._paused = self._killed = False
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(
        cls,
        lane: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        watcher: Watcher,
        report: Report,
        program: Sequence[str] = PROGRAM,
    ) -> WorkerProcess:
        """Run ``python -m qlab`` (or another ``program``) in ``folder``, on the leash of ``watcher``."""
        log = folder / f"{lane}.log"
        command = [sys.executable, *program, *arguments]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-I", "-S", _LEASH, "hold", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        worker = cls(lane, process, log, report)
        try:
            watcher.order(watch=process.pid)
        except LabError:
            process.kill()
            raise
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        await process.stdin.drain()
        process.stdin.close()
        return worker

    @property
    def alive(self) -> bool:
        """Whether the process has not ended (a paused one has not)."""
        return self._process.returncode is None

    @property
    def exit_code(self) -> int | None:
        """The exit status; minus the signal's number for a process that a signal ended; None while alive."""
        return self._process.returncode

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to do anything.  LabError if it has ended already."""
        self._send(signal.SIGKILL)
        self._killed = True

    def pause(self) -> None:
        """SIGSTOP: the process stays but gets no more CPU, as in a frozen virtual machine."""
        self._send(signal.SIGSTOP)
        self._paused = True
        self._report("paused", self.lane, "SIGSTOP", time.time())

    def resume(self) -> None:
        """SIGCONT: go on after a pause."""
        self._report("resumed", self.lane, "SIGCONT", time.time())
        self._paused = False
        self._send(signal.SIGCONT)

    async def exited(self, within: float = 15.0) -> int:
        """Wait until the process has ended; return its exit status.  LabError after ``within`` seconds."""
        try:
            async with asyncio.timeout(within):
                await asyncio.shield(self._watching)
        except TimeoutError:
            raise LabError(text("lab.still_alive", lane=self.lane, seconds=f"{within:g}")) from None
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self, grace: float = 5.0) -> None:
        """End the process gently (SIGTERM), or with SIGKILL after ``grace`` seconds.  Harmless twice."""
        if self.alive and not self._killed:  # a second signal would race with the wait for its end
            self._process.send_signal(signal.SIGTERM)
            if self._paused:
                self._process.send_signal(signal.SIGCONT)
            try:
                await self.exited(grace)
            except LabError:
                self._process.kill()
        await asyncio.shield(self._watching)

    def end_now(self) -> None:
        """SIGKILL without waiting or complaint: for interrupts and for the end of a lab."""
        if self.alive:
            self._process.kill()

    def said(self, words: str) -> bool:
        """Whether these words are in the worker's log."""
        return self.says(re.escape(words)) is not None

    def says(self, pattern: str) -> re.Match[str] | None:
        """Where the process' log has this pattern, None while it has not."""
        return re.search(pattern, self._log.read_text(errors="replace")) if self._log.exists() else None

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines that the worker wrote."""
        written = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        return "\n".join(written[-lines:])

    def failure(self, seconds: float) -> LabError:
        """Why this worker did not come up, in one sentence with the end of its log."""
        code = self.exit_code
        if code is None:
            how = text("lab.not_up_slow", seconds=f"{seconds:g}")
        elif code < 0:
            how = text("lab.not_up_signal", signal=signal_name(-code))
        else:
            how = text("lab.not_up_exit", code=code)
        tail = self.log_tail()
        log = text("lab.log", lines=tail) if tail else text("lab.no_log")
        return LabError(text("lab.not_up", lane=self.lane, how=how, log=log))

    def _send(self, number: signal.Signals) -> None:
        if not self.alive:
            raise LabError(text("lab.already_gone", lane=self.lane))
        self._process.send_signal(number)

    async def _watch(self) -> None:
        code = await self._process.wait()
        at = time.time()
        if code == 0 or code == -signal.SIGTERM:
            self._report("stopped", self.lane, "", at)
        else:
            self._report("died", self.lane, signal_name(-code) if code < 0 else f"exit {code}", at)

    def __repr__(self) -> str:
        return f"WorkerProcess({self.lane})"


def signal_name(number: int) -> str:
    """``9`` is ``"SIGKILL"``; a number without a name stays a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def worker_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a worker process: ours, with qlab and the lesson's own files importable."""
    source = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [str(folder), source, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}
