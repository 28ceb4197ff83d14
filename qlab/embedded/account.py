"""Servers do not run as root: then they get an unprivileged account and programs which that account can read.

A Python or a clone below a folder with mode 0700 (root's home, or anything made under `umask 077`) cannot be
read after the change of account, so the programs are copied once to a folder of root's that everybody may
read.
"""

import contextlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import ServerError


@dataclass(frozen=True)
class Account:
    """A user of the system."""

    name: str
    uid: int
    gid: int


def service_account() -> Account | None:
    """The account that servers run as; None when we are not root and they run as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "postgres", "daemon"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise ServerError(
        "PostgreSQL refuses to run as root and this system has no user `nobody`: run as another user."
    )


def private_folder(path: Path, account: Account | None, *, passable: bool = False) -> Path:
    """Make `path` for `account` alone; `passable` lets others reach a socket in it whose name they know."""
    path.mkdir()
    path.chmod(0o711 if passable else 0o700)
    if account:
        os.chown(path, account.uid, account.gid)
    return path


def readable_programs(root: Path, parts: Iterable[str], name: str, account: Account | None) -> Path:
    """A folder with the same `parts` (files or trees below `root`) as `root`, which `account` can read."""
    if account is None:
        return root
    files = sorted(_files(root, parts))
    for base in _bases():
        for attempt in range(20):  # a folder of that name that is damaged or not root's is left alone
            copy = base / f"qlab-programs-{name}-{attempt}"
            if not copy.exists():
                _publish(root, files, copy)
            if _is_ours(copy) and _is_complete(root, files, copy):
                return copy
    raise ServerError(
        f"No room for a copy of the server's programs in {tempfile.gettempdir()}: free some disk space."
    )


def _bases() -> Iterator[Path]:
    for base in (Path("/var/tmp"), Path(tempfile.gettempdir()), Path("/tmp")):
        if (
            base.is_dir()
            and base.stat().st_mode & stat.S_IXOTH
            and not os.statvfs(base).f_flag & os.ST_NOEXEC
        ):
            yield base


def _files(root: Path, parts: Iterable[str]) -> Iterator[Path]:
    """Relative paths of the files in `parts`."""
    for part in parts:
        if (root / part).is_file():
            yield Path(part)
        for folder, _, names in os.walk(root / part):
            yield from (
                Path(folder, name).relative_to(root) for name in names if not name.endswith((".a", ".pyc"))
            )


def _publish(root: Path, files: list[Path], copy: Path) -> None:
    """Copy under another name first: whoever sees the final name sees all of it."""
    unfinished = Path(tempfile.mkdtemp(prefix="qlab-new-", dir=copy.parent))
    try:
        for file in files:
            (unfinished / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / file, unfinished / file)
            (unfinished / file).chmod(0o755 if (root / file).stat().st_mode & stat.S_IXUSR else 0o644)
        for folder, _, _ in os.walk(unfinished):
            Path(folder).chmod(0o755)
        unfinished.rename(copy)
    except OSError:  # no room, or another process was faster: the caller looks at what is there
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_ours(copy: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        status = copy.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return False


def _is_complete(root: Path, files: list[Path], copy: Path) -> bool:
    """Cleaners of temporary folders delete old files one by one, so compare every file's size."""
    try:
        return all((copy / file).stat().st_size == (root / file).stat().st_size for file in files)
    except FileNotFoundError:
        return False
