"""Make the environment `.venv` of the course, once: `make` calls this before everything else.

It installs exactly what requirements.txt names, checked by hash, with uv when that is on PATH and with pip
otherwise. Two that run at the same time take turns. It needs nothing but the standard library.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = Path(".venv")
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "qlab-setup"
REQUIREMENTS = Path("requirements.txt")
NEEDED_DISK = 1300  # MB: the environment, measured at 760 with uv, and the packed files on the way


class SetupError(Exception):
    """The environment cannot be made; the message is one sentence that says what to do."""


def main() -> int:
    try:
        if not os.access(REQUIREMENTS, os.W_OK):
            raise SetupError("This folder cannot be written to: copy the course to a folder of yours.")
        with REQUIREMENTS.open("r+b") as turn:  # its lock is the turn of one set-up; the file is not changed
            wait_for(turn.fileno())
            if not is_ready():
                make()
            run([PYTHON, "tools/join_project.py"])
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def wait_for(descriptor: int) -> None:
    """Hold the lock of this folder's set-up until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another set-up of this folder is running: waiting for it.", flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def wanted() -> str:
    """What the stamp of a finished environment says."""
    chosen = sys.version.split()[0] if "--chosen" in sys.argv else "any"
    return f"{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()} {chosen}"


def is_ready() -> bool:
    """True when the environment was finished for these requirements and its Python still runs."""
    try:
        requirements, made_by = STAMP.read_text().split()
        asked_requirements, asked = wanted().split()
        fits = requirements == asked_requirements and asked in ("any", made_by)
        return fits and subprocess.run([PYTHON, "-c", "pass"], check=False).returncode == 0
    except (OSError, ValueError):
        return False


def make() -> None:
    """Make the environment from nothing. The stamp comes last: a set-up cut short begins again."""
    uv = shutil.which("uv")
    check(uv)
    print(f"Making {ENVIRONMENT} with {'uv' if uv else 'pip'}: about a minute, 760 MB.", flush=True)
    if uv:
        with_uv(uv)
    else:
        with_pip()
    STAMP.write_text(f"{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()} {sys.version.split()[0]}\n")


def check(uv: "str | None") -> None:
    """Raise `SetupError` when the set-up cannot succeed."""
    if not uv and not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):
        version = ".".join(map(str, sys.version_info[:2]))
        raise SetupError(
            f"This Python {version} has no venv module: install it (Debian and Ubuntu: "
            f"sudo apt-get install python{version}-venv) or install uv."
        )
    free = shutil.disk_usage(".").free // 1_000_000
    if free < NEEDED_DISK:
        raise SetupError(f"The environment needs {NEEDED_DISK} MB of disk, and {free} MB are free here.")


def with_uv(uv: str) -> None:
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    options = [] if home_exists() else ["--no-cache"]
    # uv must take this Python and never fetch one of its own.
    run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, *options, ENVIRONMENT])
    install = [uv, "pip", "install", "--quiet", "--python", PYTHON, "--require-hashes", *options]
    install += ["--compile-bytecode"]  # pip does; without it the first start of each worker is slow
    run([*install, "--no-python-downloads", "-r", REQUIREMENTS])


def with_pip() -> None:
    run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT])
    options = [] if home_exists() else ["--no-cache-dir"]
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    run([*install, *options, "--require-hashes", "-r", REQUIREMENTS])


def home_exists() -> bool:
    """Without a home there is no place for a cache."""
    return os.access(os.environ.get("HOME", ""), os.W_OK | os.X_OK)


def run(command: list) -> None:
    environment = {**os.environ, "PIP_USER": "0", "UV_LINK_MODE": os.environ.get("UV_LINK_MODE", "copy")}
    if subprocess.run([str(word) for word in command], check=False, env=environment).returncode != 0:
        raise SetupError(
            "The set-up failed for the reason above, often a missing connection to the package index."
        )


if __name__ == "__main__":
    sys.exit(main())
