"""Actors as processes of their own (`isolate=True`): forked, killed with SIGKILL, behind the same proxies.

One process, the nursery, loads the handlers once and is forked for each delivery (see child.py). Whether a
child has come to rest is asked over its control socket; it answers only when its loop has nothing to do. As
root the children run under a user id of their own. Each schedule gets a folder made afresh.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from qlab.testing.explorer.errors import ExplorerError
from qlab.testing.explorer.gate import Delivery
from qlab.testing.explorer.rules import Actor

_FIRST_UID, _UIDS = 55_000, 5_000
"""User ids of actors when we are root and none is given: nobody's on an ordinary system."""
_CLAIM = b"\0qlab-explorer-user-"
_START = 60.0  # seconds


class Nursery:
    """The process that actors are forked from. Raises ExplorerError when it cannot load a handler."""

    def __init__(self, actors: tuple[Actor, ...], uid: int | None) -> None:
        self._folder: Path | None = None
        handlers = {actor.name: _pickled(actor) for actor in actors}
        self._claim = None if uid is not None or os.geteuid() != 0 else _claim_user()
        self.uid = uid if self._claim is None else int(self._claim.getsockname()[len(_CLAIM) :])
        ours, theirs = socket.socketpair()
        ours.settimeout(_START)
        self._control, self._lines = ours, ours.makefile("rb")
        path = os.pathsep.join(filter(None, sys.path))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "qlab.testing.explorer.child", str(theirs.fileno())],
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": path},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        reply = self._ask({"handlers": handlers})
        if "error" in reply:
            self.close()
            raise ExplorerError(f"isolate=True: a handler cannot be loaded in its process: {reply['error']}")

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._control.sendall(json.dumps(request).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise ExplorerError("isolate=True: the process that actors are forked from has ended")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def fork(self, actor: str, world: dict[str, Any], control: Path, now: float) -> int:
        """Start a child for one delivery; return its process id."""
        request = {"fork": actor, "world": world, "control": str(control), "uid": self.uid, "now": now}
        return int(self._ask({**request, "folder": str(self._folder)})["pid"])

    def new_folder(self, base: Path) -> None:
        """A working folder for one schedule: what the last one wrote is gone."""
        self._forget_folder()
        self._folder = Path(tempfile.mkdtemp(prefix="work-", dir=base))
        if self.uid is not None:
            os.chown(self._folder, self.uid, self.uid)

    def _forget_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end_survivors(self) -> None:
        """SIGKILL whatever the user of the actors still runs, in one step that a fork bomb cannot outrun."""
        if os.geteuid() == 0 and self.uid:
            with contextlib.suppress(ExplorerError, OSError):
                self._ask({"end": self.uid})

    def close(self) -> None:
        """End the process; its children end with it."""
        self._end_survivors()
        self._lines.close()
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()
        self._forget_folder()
        if self._claim is not None:
            self._claim.close()


def _claim_user() -> socket.socket:
    """A user id that no other exploration has now: at the end of one, everything of its user is killed.

    It is claimed by a name that the system gives to one socket at a time and takes back when that is closed.
    """
    for uid in range(_FIRST_UID, _FIRST_UID + _UIDS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(_CLAIM + str(uid).encode())
        except OSError:  # somebody else has it
            claim.close()
        else:
            return claim
    raise ExplorerError(f"isolate=True: {_UIDS} explorations run already, give this one a user: uid=")


def _pickled(actor: Actor) -> str:
    try:
        pickled = pickle.dumps(actor.handler)
        reason = "it is of __main__" if b"__main__" in pickled else None
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    if reason is not None:
        raise ExplorerError(
            f"isolate=True needs a handler that another process can import: move that of {actor.name} to the "
            f"top level of a module ({reason})"
        )
    return base64.b64encode(pickled).decode()


class ForkedDelivery(Delivery):
    """A delivery in a process of its own. `restless`: it was given something since it last came to rest."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pid = 0
        self._process: int | None = None
        self.next_timer: float | None = None
        self._given = 1
        self._rested = 0
        self._control: asyncio.StreamWriter | None = None
        self._error: str | None = None
        self._ended = self._said_how = False

    @property
    def restless(self) -> bool:
        """It may move by itself."""
        return self._given != self._rested and not self._ended

    @property
    def finished(self) -> bool:
        """See Delivery."""
        return self._ended

    def failure(self) -> str | None:
        """See Delivery."""
        return self._error

    def run(self, nursery: Nursery, world: dict[str, Any], control: Path) -> None:
        """Begin. It is at work until it first comes to rest."""
        self.loop.begin(self)
        self.pid = nursery.fork(self.chain, world, control, self.loop.now)
        if hasattr(os, "pidfd_open"):  # elsewhere the end of its control socket is the end of it
            with contextlib.suppress(ProcessLookupError):
                self._process = os.pidfd_open(self.pid)
                self.loop.add_reader(self._process, self._exited)

    def _exited(self) -> None:
        self._forget_process()
        self.loop.call_soon(self._hang_up)  # after its last words, which are read in this round

    def _forget_process(self) -> None:
        if self._process is not None:
            self.loop.remove_reader(self._process)
            os.close(self._process)
            self._process = None

    def _hang_up(self) -> None:
        if self._control is not None:
            self._control.transport.abort()
        elif not self._ended:  # it never came to say anything
            self._ended, self.dead, self.pid = True, True, 0
            self.loop.end(self)

    def busy(self) -> None:
        """See Delivery."""
        self._given += 1

    def ask_for_rest(self) -> None:
        """Ask it to answer once it has nothing to do."""
        self.loop.begin(self)
        self._send({"ping": self._given})

    def pass_time(self, seconds: float, now: float, *, frozen: bool) -> None:
        """Tell it that time has passed."""
        self.busy()
        self._send({"advance": seconds, "now": now, "frozen": frozen})

    def _send(self, message: dict[str, Any]) -> None:
        if self._control is not None:
            self._control.write(json.dumps(message).encode() + b"\n")

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Its control socket: hears when it rests and how the handler ended; the end of it is its death."""
        self._control = writer
        self._send({"ping": self._given})
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            while line := await reader.readline():
                message = json.loads(line)
                if "rested" in message:
                    self._rested, due = int(message["rested"]), message["timer"]
                    self.next_timer = None if due is None else float(due)
                    if not self.dead:  # else its end is waited for
                        self.loop.end(self)
                elif "refused" in message:
                    self.refusal = str(message["refused"])[:300]
                elif "ended" in message:
                    self._said_how = True
                    self._error = None if message["ended"] is None else str(message["ended"])[:120]
                    break
        self._kill()  # it and what it has started
        self._forget_process()
        self._ended, self._control, self.pid = True, None, 0
        self.dead = self.dead or not self._said_how  # it died by itself, without a word
        writer.transport.abort()
        self.loop.end(self)

    def crash(self) -> None:
        """See Delivery. SIGKILL to it and its children, and wait until it is gone."""
        self.dead = True
        self._kill()
        if self._control is not None:
            self.loop.begin(self)
        else:  # it was not there yet, or is gone
            self.loop.end(self)
        super().leave()

    def leave(self) -> None:
        """See Delivery."""
        self._kill()
        super().leave()

    def _kill(self) -> None:
        if self.pid > 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def peer(writer: asyncio.StreamWriter) -> int | None:
    """Process id at the other end of a Unix socket; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    ours = writer.get_extra_info("socket")
    if option is None or ours is None or ours.family != socket.AF_UNIX:
        return None
    pid: int = struct.unpack("3i", ours.getsockopt(socket.SOL_SOCKET, option, 12))[0]
    return pid
