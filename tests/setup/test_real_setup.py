"""The real thing: from nothing to a served lab, as the people do it who have the least."""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.setup.conftest import copy_of_the_course

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SERVES_WITHIN = 60.0  # seconds after the set-up


def bare_environment(home: str = "/nonexistent", **more: str) -> dict[str, str]:
    """What a login gives, without uv and without anything of this run; how to reach an index is kept."""
    kept = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    return environment | {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, **more}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def lab(course: Path, environment: dict[str, str], **options) -> Iterator[tuple[subprocess.Popen, str]]:
    """`make lab` until it serves; yields it and what it has printed."""
    port = free_port()
    printed = course / "lab.log"
    with printed.open("wb") as log:
        process = subprocess.Popen(
            ["make", "lab", f"LAB_ARGS=--no-browser --port={port}"],
            cwd=course,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
    limit = time.monotonic() + SERVES_WITHIN
    while not serves(port):
        assert process.poll() is None, printed.read_text()
        assert time.monotonic() < limit, printed.read_text()
        time.sleep(0.1)
    try:
        yield process, printed.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def serves(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/lab", timeout=5).status == 200
    except OSError:
        return False


def test_lab_from_nothing_with_pip_twice_at_once(course):
    environment = bare_environment()
    options = {"cwd": course, "env": environment, "umask": 0o077, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(["make", "setup"], stdout=subprocess.DEVNULL, **options) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors
    with lab(course, environment, umask=0o077) as (process, printed):
        assert "servers: Valkey 9" in printed
        assert "PostgreSQL 18" in printed
        assert "/lab/tree/notebooks/00_start_here.ipynb?token=" in printed
        family = psutil.Process(process.pid).children(recursive=True)
        assert any("valkey-server" in " ".join(member.cmdline()) for member in family)
        process.terminate()
        assert process.wait(30) != 0
        assert psutil.wait_procs(family, timeout=30)[1] == []
    assert not Path("/nonexistent").exists()


def test_doctor_as_an_ordinary_user_whose_home_is_closed_to_others(their_folder, ordinary):
    home = their_folder / "nhà của tôi"
    course = copy_of_the_course(home / "khoá học")
    shutil.chown(home, ordinary.pw_uid, ordinary.pw_gid)
    home.chmod(0o700)
    for path in home.rglob("*"):
        os.chown(path, ordinary.pw_uid, ordinary.pw_gid)
    become = (
        {"user": ordinary.pw_uid, "group": ordinary.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    environment = bare_environment(str(home))
    for target in ("setup", "doctor"):
        done = subprocess.run(
            ["make", target],
            cwd=course,
            env=environment,
            umask=0o077,
            capture_output=True,
            text=True,
            check=False,
            **become,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   redis: Valkey 9" in done.stdout
    assert "ok   postgres: PostgreSQL 18" in done.stdout
    assert "All is well." in done.stdout
