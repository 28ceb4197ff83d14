"""One answer process as the grader sees it: ask it, bound it, and know how it ended."""

import asyncio
import json
import os
import signal
import socket
from typing import Any

from qlab.classroom.grading.sandbox import AnswerFailed, Nursery, NurseryDied

OUTPUT_LIMIT = 8 << 20  # bytes that an answer may print
_LINE = 1 << 20


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
