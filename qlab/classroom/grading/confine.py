"""What the operating system takes away from an answer before it runs: rights, memory, time, network."""

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_CLONE_NEWNET = 0x40000000
LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Limits:
    """Bounds for one answer process. Bytes, seconds, counts."""

    memory: int = 1 << 30  # address space; the interpreter and its libraries take about a third of it
    cpu: int = 15
    file_size: int = 16 << 20
    open_files: int = 256
    processes: int = 64  # for each user id, so it can be set to this only when the answer has one of its own


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Orphans among the descendants become children of this process, so it can find and end them all."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """End with SIGKILL when the parent ends. A change of user id clears this, so call it afterwards."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Close /proc/<pid>/{mem,environ,fd} of this process to others of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def cut_network() -> bool:
    """Leave this process without a network (Unix sockets stay). False where the system does not allow it."""
    if not LINUX:
        return False
    return bool(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) == 0)


def set_limits(limits: Limits, *, own_user: bool) -> None:
    """Apply the limits to this process and whatever it starts."""
    values = [
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ]
    if LINUX:
        values.append((resource.RLIMIT_AS, limits.memory))  # macOS accepts it and does nothing
        extra = 0 if own_user else _tasks_of_this_user()
        values.append((resource.RLIMIT_NPROC, limits.processes + extra))
    for kind, value in values:
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _tasks_of_this_user() -> int:
    """Threads of the user now: without a user id of its own the limit counts these too."""
    uid, count = os.getuid(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == uid:
                count += len(list((folder / "task").iterdir()))
        except OSError:  # it ended meanwhile
            continue
    return count


def drop_to(uid: int) -> None:
    """Become this user for good: no groups, no way back, no set-uid programs."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def kill_everything_of(uid: int) -> None:
    """SIGKILL every process of this user in one step, which a fork bomb cannot outrun."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
