"""Is this machine fit for the course? Each check says what it found and, when it fails, what to do.

The terminal (`python -m qlab doctor`) and the first notebook show the same checks.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from qlab.embedded import ServerError, Servers, start
from qlab.ops import first_job, machine

_PACKAGES = ("redis", "psycopg", "jupyterlab", "ipywidgets", "nbval", "pytest")


@dataclass(frozen=True)
class Check:
    """The outcome of one check."""

    name: str
    """Short and stable: "python", "packages", "redis", "memory policy", "postgres", "first job", …"""
    ok: bool
    detail: str
    """What was found, one sentence or less."""
    fix: str = ""
    """What to do; empty when `ok`."""


Listener = Callable[[Check, int, int], None]
"""Called after each check with the check, how many are done, and how many there are."""


def diagnose(listener: Listener | None = None, servers: Servers | None = None) -> list[Check]:
    """Run all checks, which takes about two seconds, and return them in order. Nothing is left behind.

    Servers are started for the checks and stopped after them, unless `servers` are given. It may be called
    in a notebook, whose event loop it leaves alone. A failed check does not keep the others from running.
    """
    own = servers is None
    checks: list[Callable[[], Check]] = [_python, _packages, _memory, _disk, _progress_folder, _port]
    found: list[Check] = []
    total = len(checks) + len(_SERVER_CHECKS)

    def note(check: Check) -> None:
        found.append(check)
        if listener:
            listener(check, len(found), total)

    for each in checks:
        note(each())
    try:
        servers = servers or start()
    except ServerError as error:
        found.append(Check("servers", False, str(error), "Start your server, or unset its variable."))
        if listener:
            listener(found[-1], total, total)
        return found
    try:
        for check in _SERVER_CHECKS.values():
            note(check(servers))
    finally:
        if own:
            servers.close()
    return found


def report(check: Check, done: int, total: int) -> None:
    """Print one check for a terminal."""
    print(f"[{done}/{total}] {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}", flush=True)
    if check.fix:
        print(f"            fix: {check.fix}", flush=True)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return Check(
        "python", ok, f"Python {version}", "" if ok else "Install Python 3.11 or newer, then `make setup`."
    )


def _packages() -> Check:
    missing, versions = machine.packages(_PACKAGES)
    if missing:
        return Check(
            "packages", False, f"missing: {', '.join(missing)}", "Run `make setup` in the course's folder."
        )
    return Check("packages", True, ", ".join(f"{name} {version}" for name, version in versions.items()))


def _memory() -> Check:
    available = machine.available_memory()
    detail = f"{available} MB available, {machine.NEEDED_MEMORY} MB needed"
    ok = available >= machine.NEEDED_MEMORY
    return Check(
        "memory", ok, detail, "" if ok else "Close other programs, or shut down other kernels in the lab."
    )


def _disk() -> Check:
    free = machine.free_disk(".")
    needed = machine.NEEDED_DISK
    detail = f"{free} MB free in this folder, {needed} MB needed"
    return Check("disk", free >= needed, detail, "" if free >= needed else "Free some disk space.")


def _progress_folder() -> Check:
    folder = os.environ.get("QLAB_HOME") or ".qlab"
    ok = machine.is_writable(folder)
    detail = f"progress is kept in {folder}"
    return Check(
        "progress folder", ok, detail, "" if ok else "Set QLAB_HOME to a folder that you may write to."
    )


def _port() -> Check:
    from qlab.ops.lab import port_is_free

    free = [port for port in range(8888, 8938) if port_is_free(port)]
    if not free:
        return Check(
            "port", False, "ports 8888 to 8937 are taken", "Choose one: make lab LAB_ARGS=--port=9999"
        )
    return Check("port", True, f"the lab can listen on port {free[0]}")


def _redis(servers: Servers) -> Check:
    detail = f"{servers.versions()['redis']} ({servers.redis_kind})"
    if servers.redis_kind == "fakeredis":
        return Check("redis", False, detail, " ".join(servers.notices))
    return Check("redis", True, detail)


def _memory_policy(servers: Servers) -> Check:
    policy = machine.memory_policy(servers.redis_url)
    if policy is None:
        return Check("memory policy", True, "this Redis does not tell its maxmemory-policy")
    ok = policy == "noeviction"
    fix = "Jobs could vanish when memory is short: CONFIG SET maxmemory-policy noeviction"
    return Check("memory policy", ok, f"maxmemory-policy is {policy}", "" if ok else fix)


def _postgres(servers: Servers) -> Check:
    if servers.pg_dsn is None:
        fix = "Set QLAB_PG_DSN to a PostgreSQL of yours; lessons about PostgreSQL need one."
        return Check("postgres", False, " ".join(servers.notices) or "there is none", fix)
    return Check("postgres", True, f"{servers.versions()['postgres']} ({servers.pg_kind})")


def _first_job(servers: Servers) -> Check:
    try:
        job = first_job.run(servers.redis_url)
    except first_job.FirstJobError as error:
        fix = "If the servers above are well, please send us this text with the words of the worker."
        return Check("first job", False, str(error), fix)
    return Check(
        "first job", True, f"worker process {job.worker_pid} ran it {job.milliseconds} ms after it was added"
    )


_SERVER_CHECKS: dict[str, Callable[[Servers], Check]] = {
    "redis": _redis,
    "memory policy": _memory_policy,
    "postgres": _postgres,
    "first job": _first_job,
}
