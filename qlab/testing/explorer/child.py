"""The nursery, and the actors that are forked from it. A program: `processes.py` starts it.

It loads the handlers once, as whoever started it; a child changes its user before it runs one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import encodings.idna  # noqa: F401 - loaded lazily by socket; a child may not be able to read it
import gc
import json
import logging
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import anyio._backends._asyncio  # noqa: F401 - loaded here, so that no child has to
import httpcore  # noqa: F401
import psycopg_pool  # noqa: F401
import redis.asyncio  # noqa: F401

import qlab.postgres.relay  # noqa: F401
from qlab import scripts
from qlab.postgres.statements import statement
from qlab.testing.explorer.clock import OWNER, VirtualLoop
from qlab.testing.explorer.errors import Unsupported
from qlab.testing.explorer.gate import how_it_ends
from qlab.testing.explorer.rules import DeliveryRules
from qlab.testing.explorer.servers import entry_scripts
from qlab.testing.explorer.world import World
from qlab.testing.provider_client import ProviderClient

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


class _Owner:
    """The only actor in this process."""

    def __init__(self, name: str, say: Callable[[dict[str, Any]], None]) -> None:
        self.name, self._say = name, say
        self.tasks: set[asyncio.Task[Any]] = set()

    def refuse(self, sentence: str) -> None:
        """Tell the parent, which ends the exploration."""
        self._say({"refused": sentence})
        raise Unsupported(sentence)


class ChildLoop(VirtualLoop):
    """The virtual clock of one actor; its parent moves it, and asks when it has come to rest."""

    def __init__(self, name: str, control: socket.socket) -> None:
        super().__init__()
        self.owner = _Owner(name, self.say)
        self.true_now = 0.0
        self._asked: int | None = None
        self._control, self._buffer = control, b""
        self.add_reader(control, self._hear)

    def say(self, message: dict[str, Any]) -> None:
        """Tell the parent."""
        self._control.sendall(json.dumps(message).encode() + b"\n")

    def idle(self, select: Callable[[float], list[Any]]) -> list[Any]:
        """Nothing is ready: say so if the parent has asked, then wait for bytes."""
        if self._asked is not None:
            asked, self._asked = self._asked, None
            self.say({"rested": asked, "timer": self.next_timer(())})
        return select(60.0)

    def _hear(self) -> None:
        data = self._control.recv(65536)
        if not data:
            os._exit(0)  # nobody explores any more
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for message in map(json.loads, lines):
            if "ping" in message:
                self._asked = message["ping"]
            else:
                self.true_now = message["now"]
                self.advance(message["advance"], {self.owner} if message["frozen"] else ())


def _become(uid: int | None, folder: str) -> None:
    """A session of its own, another user for good, dead when the nursery is, in the schedule's folder."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)


def _act(handler: Any, request: dict[str, Any]) -> None:
    logging.disable(logging.CRITICAL)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    _become(request["uid"], request["folder"])
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(request["control"])
    loop = ChildLoop(request["fork"], control)
    loop.now = loop.true_now = request["now"]
    given = request["world"]
    provider = ProviderClient("http://provider", uds=given["provider_socket"])
    rules = DeliveryRules(**{**given.pop("rules"), "backoff": tuple(given.pop("backoff"))})
    world = World(lambda: loop.true_now, provider=provider, rules=rules, **given)

    OWNER.set(loop.owner)
    asyncio.set_event_loop(loop)
    loop.say({"ended": loop.run_until_complete(how_it_ends(handler, world))})
    while control.recv(65536):  # to hang up first could cost the parent these last words
        pass


def _read_everything() -> None:
    """SQL and Lua are read from files when they are first used; a child may not be able to read them."""
    for entry in (files("qlab.postgres") / "sql").iterdir():
        statement(entry.name.removesuffix(".sql"))
    for name in entry_scripts():
        scripts.script(name)


def main(descriptor: int) -> None:
    """Load the handlers, then fork a child for each request, until nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    lines = control.makefile("rb")

    def reply(message: dict[str, Any]) -> None:
        control.sendall(json.dumps(message).encode() + b"\n")

    handlers: dict[str, Any] = {}
    for name, text in json.loads(lines.readline())["handlers"].items():
        try:
            handlers[name] = pickle.loads(base64.b64decode(text))
        except Exception as error:
            reply({"error": f"{type(error).__name__}: {error}"})
            return
    _read_everything()
    gc.freeze()  # what a child does not touch it shares
    reply({"ok": True})
    for line in lines:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                lines.close()
                control.close()
                if "end" in request:
                    os.setgid(request["end"])
                    os.setuid(request["end"])
                    os.kill(-1, signal.SIGKILL)
                else:
                    _act(handlers[request["fork"]], request)
            os._exit(0)
        if "end" in request:
            with contextlib.suppress(ChildProcessError):  # it is not kept for us, but waited for
                os.waitpid(pid, 0)
        reply({"pid": pid})


if __name__ == "__main__":
    main(int(sys.argv[1]))
