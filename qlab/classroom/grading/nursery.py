"""The process that answers are forked from: started by the grader, ends with it, trusts nothing it forks.

It has imported what answers need before a fork gives up its rights, so an answer starts in milliseconds and
needs to read no file of ours. Every orphan becomes its child, so it can end all that an answer ever started.

It takes requests, one JSON line each, on the socket named in argv, and answers each with one line:
    {"op": "spawn", "uid": int|null, "limits": {...}, "job": {...}} with two descriptors (channel, output)
        -> {"pid": int, "cut": bool}
    {"op": "status", "pid": int}        -> {"exit": int|null, "signal": int|null, "alive": bool}
    {"op": "kill_all", "uid": int|null} -> {"left": int}
"""

import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import psutil

from qlab.classroom.grading import child, confine

_LINE = 8 << 20
PRELOAD = (
    "abc anyio._backends._asyncio asyncio base64 bisect calendar collections concurrent.futures.thread",
    "contextlib contextvars copy dataclasses datetime decimal encodings.ascii encodings.idna",
    "encodings.latin_1 encodings.unicode_escape enum fractions functools hashlib heapq hmac",
    "httpcore._backends.anyio httpcore._backends.auto httpx importlib.readers inspect io itertools json",
    "logging math multiprocessing numbers operator pathlib pprint",
    "psycopg psycopg.rows psycopg.sql psycopg.types.json",
    "psycopg_pool queue random re secrets signal socket sqlite3 statistics string subprocess tempfile",
    "textwrap threading time traceback types typing unittest.mock uuid warnings weakref zoneinfo",
    "qlab.classroom.ex04 qlab.classroom.grading.ex04_stage qlab.postgres.idempotency qlab.testing",
)


def main(descriptor: int) -> None:
    """Serve until the grader closes the socket."""
    confine.die_with_parent()
    confine.become_subreaper()
    confine.hide_memory()
    for name in " ".join(PRELOAD).split():
        importlib.import_module(name)
    control = socket.socket(fileno=descriptor)
    control.sendall(b'{"ready": true}\n')
    while True:
        line, descriptors = _receive(control)
        if not line:
            break
        request = json.loads(line)
        if request["op"] == "spawn":
            reply = _spawn(control, request, descriptors)
        elif request["op"] == "status":
            reply = _status(request["pid"])
        else:
            reply = {"left": _kill_all(request["uid"])}
        control.sendall(json.dumps(reply).encode() + b"\n")
    _kill_all(None)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """One line and the descriptors that came with it; an empty line when the grader is gone."""
    data, descriptors, _, _ = socket.recv_fds(control, 65536, 2)
    while data and not data.endswith(b"\n"):
        more = control.recv(65536)
        if not more or len(data) > _LINE:
            return b"", descriptors
        data += more
    return data, descriptors


def _spawn(control: socket.socket, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        control.close()
        _become_answer(request, descriptors, told)
    os.close(told)
    for descriptor in descriptors:
        os.close(descriptor)
    with os.fdopen(ready, "rb") as pipe:
        return {"pid": pid, "cut": pipe.read() == b"cut"}


def _become_answer(request: dict[str, Any], descriptors: list[int], told: int) -> NoReturn:
    """In the fork: give up every right, then run the answer. Never returns."""
    try:
        channel, output = descriptors
        uid = request["uid"]
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        cut = request["cut_network"] and confine.cut_network()
        home = request["home"]
        os.environ.update({"HOME": home, "TMPDIR": home})
        confine.set_limits(confine.Limits(**request["limits"]), own_user=uid is not None)
        if uid is not None:
            confine.drop_to(uid)
        confine.die_with_parent()
        os.chdir(home)
        os.write(told, b"cut" if cut else b"open")
        os.close(told)
        child.run(channel, request["job"])
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(70)


def _status(pid: int) -> dict[str, Any]:
    """How a process ended, waiting a moment for one that is ending."""
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            break
        if done:
            by_signal = os.WIFSIGNALED(status)
            return {
                "exit": None if by_signal else os.WEXITSTATUS(status),
                "signal": os.WTERMSIG(status) if by_signal else None,
                "alive": False,
            }
        time.sleep(0.005)
    return {"exit": None, "signal": None, "alive": psutil.pid_exists(pid)}


def _kill_all(uid: int | None) -> int:
    """End everything that was ever forked from here; returns how many were left after five seconds."""
    me, end = psutil.Process(), time.monotonic() + 5.0
    while True:
        if uid is not None:
            confine.kill_everything_of(uid)
        for process in me.children(recursive=True):
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.Error:
                continue
        _reap()
        left = len(me.children(recursive=True))
        if not left or time.monotonic() > end:
            break
        time.sleep(0.005)
    if uid is not None:
        _remove_files_of(uid)
    return left


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _remove_files_of(uid: int) -> None:
    """What an answer left in folders that everybody can write to must not reach the next answer."""
    for folder in (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")):
        if not folder.is_dir():
            continue
        for path in folder.iterdir():
            try:
                if path.lstat().st_uid == uid and not path.is_dir():
                    path.unlink()
            except OSError:
                continue


if __name__ == "__main__":
    main(int(sys.argv[1]))
