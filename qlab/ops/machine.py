"""What this machine has, and what the course was measured to need."""

import importlib.metadata
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

NEEDED_MEMORY = 400
"""MB. Resident, measured on Linux: JupyterLab 110, servers 47, two workers 65, two kernels 106 and more."""
NEEDED_DISK = 200
"""MB beside the installed environment: data of servers, notebooks, logs."""

_CGROUP = Path("/sys/fs/cgroup")


def packages(names: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Which of the packages are missing, and the versions of the others."""
    missing, versions = [], {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return missing, versions


def available_memory() -> int:
    """MB that a new program can have; the limit of a container counts."""
    import psutil

    available = psutil.virtual_memory().available
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        limit = "max"
    if limit != "max":
        available = min(available, int(limit) - used)
    return int(available) // 1_000_000


def free_disk(folder: str) -> int:
    """MB that this user may still write in `folder`."""
    return shutil.disk_usage(folder).free // 1_000_000


def is_writable(folder: str) -> bool:
    """True when `folder` can be written to, or made."""
    path = Path(folder).absolute()
    while not path.exists():
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def memory_policy(redis_url: str) -> str | None:
    """The server's `maxmemory-policy`; None when it does not tell (fakeredis, some hosted services)."""
    import redis

    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        try:
            policy: str | None = client.config_get("maxmemory-policy").get("maxmemory-policy")
        except redis.ResponseError:
            return None
    return policy
