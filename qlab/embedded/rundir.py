"""A folder for each server, and the sweeping of folders whose process is gone.

A folder is alive as long as its owner holds the lock on `owner.lock`. The kernel frees a lock however its
holder ends, and unlike a process id a lock is never reused and means the same in every container that shares
the folder.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from .errors import ServerError

PREFIX = "qlab-run-"
_UNFINISHED = "qlab-new-"
_LOCK = "owner.lock"
# A Unix socket's path may have 107 bytes on Linux and 103 on macOS; ours add this much to the folder's.
_SOCKET_ROOM = len(f"/{PREFIX}12345678/postgres/.s.PGSQL.5432")
_SOCKET_LIMIT = 103
_ABANDONED = 3600.0  # seconds after which a folder that never got its final name is nobody's


class RunDir:
    """A private folder: others may pass through it to a socket whose password they know, and read nothing."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """Delete the folder and give the lock back. Harmless when repeated."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def create() -> RunDir:
    """Make a locked folder. It gets its final name once it is locked, so that no sweep takes it too early."""
    base = base_folder()
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=base))
    lock = os.open(unfinished / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unfinished.chmod(0o711)
    path = unfinished.with_name(PREFIX + unfinished.name.removeprefix(_UNFINISHED))
    unfinished.rename(path)
    return RunDir(path, lock)


def base_folder() -> Path:
    """The folder for temporary files, or /tmp when that one has too long a name for a socket."""
    for base in (tempfile.gettempdir(), "/tmp"):
        fits = len(os.fsencode(base)) + _SOCKET_ROOM <= _SOCKET_LIMIT and "," not in base  # libpq: a list
        if fits and os.access(base, os.W_OK | os.X_OK):
            return Path(base)
    raise ServerError(
        f"The folder for temporary files, {tempfile.gettempdir()}, has too long a name for a socket (or a "
        "comma in it) and /tmp cannot be used: set TMPDIR to a folder with a short name."
    )


def sweep() -> list[Path]:
    """Delete the folders of this user whose owner is gone; return them. Many may sweep at once."""
    swept = []
    for path in sorted(base_folder().glob("qlab-*")):
        with contextlib.suppress(OSError):  # gone meanwhile: another process was faster
            status = path.lstat()
            if (
                stat.S_ISDIR(status.st_mode)
                and status.st_uid == os.geteuid()
                and _is_stale(path, status.st_mtime)
            ):
                shutil.rmtree(path, ignore_errors=True)
                swept.append(path)
    return swept


def _is_stale(path: Path, modified: float) -> bool:
    if path.name.startswith(_UNFINISHED):
        return time.time() - modified > _ABANDONED
    return path.name.startswith(PREFIX) and _owner_is_gone(path / _LOCK)


def _owner_is_gone(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True  # a named folder had its lock before its name: somebody's sweep was cut short
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
