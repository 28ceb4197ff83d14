"""`python -m qlab lab`: what it refuses, and how it keeps Jupyter to the course's folder."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from qlab.ops import lab


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ([], None),
        (["--no-browser"], None),
        (["--no-browser", "--port=18999"], 18999),
        (["--port", "18999"], 18999),
        (["--ServerApp.port=18999"], 18999),
        (["--port=1", "--port=2"], 2),
    ],
)
def test_port_is_read_from_the_options(options, port):
    assert lab.chosen_port(options) == port


@pytest.mark.parametrize("options", [["--port=x"], ["--port"], ["--port=0"], ["--port=70000"]])
def test_port_that_is_none(options):
    with pytest.raises(lab.LabError, match="is not a port: write a number from 1 to 65535"):
        lab.chosen_port(options)


@pytest.fixture
def course(tmp_path) -> Path:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / lab.FIRST_PAGE).write_text("{}")
    return tmp_path


def refused(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "qlab", "lab", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_port_that_is_taken(course):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        message = refused(course, "--no-browser", f"--port={port}")
    assert message.startswith(
        f"The lab cannot start. Port {port} is taken by another program: stop it, or choose"
    )


def test_elsewhere_than_in_the_course(tmp_path):
    assert "There is no notebooks/00_start_here.ipynb here" in refused(tmp_path)


def test_redis_that_is_not_there(course, monkeypatch, tmp_path):
    monkeypatch.setenv("QLAB_REDIS_URL", f"unix://:hunter2@{tmp_path}/none.sock")
    message = refused(course, "--no-browser")
    assert "it cannot be reached" in message
    assert "hunter2" not in message


def test_jupyter_is_kept_to_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    settings = lab.private_settings(tmp_path / ".qlab")
    assert {"HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"} < set(
        settings
    )
    assert all(Path(folder).is_dir() and tmp_path in Path(folder).parents for folder in settings.values())


def test_a_home_that_is_there_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "HOME" not in lab.private_settings(tmp_path / ".qlab")
