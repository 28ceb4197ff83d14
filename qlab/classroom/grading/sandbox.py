"""The grader's side of the nursery: the one process that answers are forked from."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

from qlab.classroom.exercises import ROOT
from qlab.classroom.grading.accounts import Accounts
from qlab.classroom.grading.confine import Limits

REPLY_TIMEOUT = 5.0  # seconds for loading, and for one call
_START = 60.0


class AnswerFailed(Exception):
    """The answer's process gave no verdict that counts. `code` names why, `detail` is the evidence."""

    def __init__(self, code: str, **detail: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class GraderSetupError(RuntimeError):
    """The grader itself cannot work here; one sentence says why and what to do. Nobody gets a grade."""


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
            modules = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
            environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": modules}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "qlab.classroom.grading.nursery", str(theirs.fileno())],
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        ours.settimeout(_START)
        self._control = ours
        try:
            self._read()
        except OSError:
            self.stop()
            raise GraderSetupError(
                "the process that starts answers does not run: its own message is above; "
                "check that this Python has all packages of requirements.txt"
            ) from None

    def ask(self, request: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        """One request, one reply. Raises NurseryDied."""
        if self._process is not None and self._process.poll() is not None:
            self.stop()
            if request["op"] == "status":
                raise NurseryDied  # it ended together with the answer that is asked about
        if self._process is None:
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
