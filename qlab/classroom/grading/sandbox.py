"""The grader's side of an answer process: start it, ask it, and know how it ended."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qlab.classroom.exercises import ROOT
from qlab.classroom.grading.accounts import Accounts
from qlab.classroom.grading.confine import Limits

REPLY_TIMEOUT = 5.0  # seconds for loading, and for one call
OUTPUT_LIMIT = 8 << 20  # bytes that an answer may print
_LINE = 1 << 20
_START = 60.0


class AnswerFailed(Exception):
    """The answer's process gave no verdict that counts. `code` names why, `detail` is the evidence."""

    def __init__(self, code: str, **detail: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class NurseryDied(AnswerFailed):
    """The process that starts answers was killed: without root an answer can do that."""

    def __init__(self) -> None:
        super().__init__("killed_grader")


class Nursery:
    """Forks answer processes and ends them with all their descendants. One submission at a time."""

    def __init__(
        self, limits: Limits | None = None, *, reply_timeout: float = REPLY_TIMEOUT, own_users: bool = True
    ) -> None:
        self.limits = limits or Limits()
        self.reply_timeout = reply_timeout
        self.accounts = Accounts(own_users)
        self.network_cut: bool | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "qlab.classroom.grading.nursery", str(theirs.fileno())],
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        ours.settimeout(_START)
        self._control = ours
        self._read()

    def ask(self, request: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        """One request, one reply. Raises NurseryDied."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._control is not None
        try:
            line = json.dumps(request).encode() + b"\n"
            if descriptors:
                sent = socket.send_fds(self._control, [line], descriptors)
                line = line[sent:]
            self._control.sendall(line)
            return self._read()
        except OSError:
            self.stop()
            raise NurseryDied from None

    def _read(self) -> dict[str, Any]:
        assert self._control is not None
        data = b""
        while not data.endswith(b"\n"):
            more = self._control.recv(65536)
            if not more:
                raise OSError("the nursery is gone")
            data += more
        reply: dict[str, Any] = json.loads(data)
        return reply

    def stop(self) -> None:
        """End the nursery, and with it every answer."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._control = None

    def close(self) -> None:
        """End everything and give the user ids back."""
        self.stop()
        self.accounts.close()


class Cage:
    """The place of one submission: its user id, its folder, its processes."""

    def __init__(self, nursery: Nursery, *, cut_network: bool) -> None:
        self.nursery = nursery
        self.uid = nursery.accounts.next()
        self.cut_network = cut_network and self.uid is not None
        self.folder = Path(tempfile.mkdtemp(prefix="qlab-grade-"))
        self.folder.chmod(0o711)
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        if self.uid is not None:
            os.chown(self.home, self.uid, self.uid)

    async def spawn(self, job: dict[str, Any]) -> "Answer":
        """Start an answer process. Call `loaded()` on it before anything else."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        request = {
            "op": "spawn",
            "uid": self.uid,
            "home": str(self.home),
            "limits": asdict(self.nursery.limits),
            "cut_network": self.cut_network,
            "job": job,
        }
        try:
            reply = self.nursery.ask(request, (theirs.fileno(), writing))
        except NurseryDied:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        self.nursery.network_cut = bool(reply["cut"])
        return await Answer.open(self.nursery, reply["pid"], ours, reading)

    def kill_all(self) -> int:
        """End every process that the submission started; returns how many could not be ended."""
        try:
            return int(self.nursery.ask({"op": "kill_all", "uid": self.uid})["left"])
        except NurseryDied:
            return 0

    def close(self) -> int:
        """As `kill_all`, and remove the folder."""
        left = self.kill_all()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left


class Answer:
    """One running answer process."""

    def __init__(
        self, nursery: Nursery, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = pid
        self._nursery = nursery
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._failure: AnswerFailed | None = None
        self._reaped = False
        self._printed = 0
        self._tail = b""
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, nursery: Nursery, pid: int, channel: socket.socket, output: int) -> "Answer":
        """Wrap the grader's ends of the channel and of the output pipe."""
        reader, writer = await asyncio.open_connection(sock=channel, limit=_LINE)
        answer = cls(nursery, pid, reader, writer)
        printed = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(printed), os.fdopen(output, "rb"))
        answer._tasks = [loop.create_task(answer._listen()), loop.create_task(answer._drain(printed))]
        return answer

    async def loaded(self) -> None:
        """Wait until the answer cells have run. Raises AnswerFailed."""
        hello = await self._within(self._hello)
        if hello["event"] == "failed":
            raise self._load_failure(hello["error"])
        if not hello["defined"]:
            raise AnswerFailed("not_defined")

    def _load_failure(self, error: dict[str, Any]) -> AnswerFailed:
        if "MemoryError" in error["classes"]:
            return AnswerFailed("memory", where=error["where"])
        code = "unanswered" if "NotImplementedError" in error["classes"] else "load_error"
        return AnswerFailed(code, error=f"{error['classes'][0]}: {error['text']}", where=error["where"])

    async def call(self, **command: Any) -> dict[str, Any]:
        """One call; {"value": ...} or {"error": {...}}. Raises AnswerFailed."""
        number = len(self._waiting) + 1
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        if self._failure:
            raise self._failure
        self._writer.write(json.dumps({**command, "id": number}).encode() + b"\n")
        return await self._within(reply)

    async def _within(self, reply: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._nursery.reply_timeout):
                return await asyncio.shield(reply)
        except TimeoutError:
            failure = self._failure or AnswerFailed("timeout", seconds=self._nursery.reply_timeout)
            self.kill()
            self._fail(failure)
            raise failure from None

    async def _listen(self) -> None:
        """Deliver what the answer sends. The end of the channel is the end of the answer."""
        try:
            while line := await self._reader.readline():
                self._deliver(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._fail(AnswerFailed("protocol"))
            self.kill()
        except OSError:
            pass
        if self._failure is None:
            self._fail(self._ending())

    def _deliver(self, message: dict[str, Any]) -> None:
        if "event" in message:
            known = {"event": str(message["event"]), "defined": message.get("defined") is True}
            if known["event"] == "failed":
                known["error"] = _error(message["error"])
            target, reply = self._hello, known
        else:
            target = self._waiting[message["id"]]
            failed = "error" in message
            reply = {"error": _error(message["error"])} if failed else {"value": message["value"]}
        if not target.done():
            target.set_result(reply)

    def _ending(self) -> AnswerFailed:
        try:
            status = self._nursery.ask({"op": "status", "pid": self.pid})
        except NurseryDied as died:
            return died
        self._reaped = not status["alive"]
        printed = self._tail.decode(errors="replace")[-300:]
        if status["signal"] == signal.SIGXCPU:
            return AnswerFailed("cpu", seconds=self._nursery.limits.cpu)
        if b"MemoryError" in self._tail:
            return AnswerFailed("memory", limit=self._nursery.limits.memory)
        return AnswerFailed("died", exit=status["exit"], signal=status["signal"], printed=printed)

    def _fail(self, failure: AnswerFailed) -> None:
        self._failure = failure
        for future in (self._hello, *self._waiting.values()):
            if not future.done():
                future.set_exception(failure)
                future.exception()  # whoever waits gets it; nobody waiting is no warning

    async def _drain(self, printed: asyncio.StreamReader) -> None:
        while data := await printed.read(1 << 16):
            self._printed += len(data)
            self._tail = (self._tail + data)[-2000:]
            if self._printed > OUTPUT_LIMIT:
                self._fail(AnswerFailed("output", limit=OUTPUT_LIMIT))
                self.kill()
                return

    def kill(self) -> None:
        """SIGKILL for this process; its descendants follow with the cage."""
        if self._reaped:
            return  # its number may belong to another process by now
        try:
            os.kill(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    async def close(self) -> None:
        """End this process and let go of its pipes."""
        self._failure = self._failure or AnswerFailed("closed")
        self.kill()
        self._writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _error(error: Any) -> dict[str, Any]:
    """An error as the answer reports it, made safe: texts only, short."""
    return {
        "classes": [str(name)[:100] for name in error["classes"][:20]] or ["Exception"],
        "text": str(error["text"])[:500],
        "where": None if error["where"] is None else str(error["where"])[:100],
    }
