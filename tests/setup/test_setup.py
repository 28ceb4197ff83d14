"""`make setup`: one sentence for what is missing, made once, in turns, never a Python from elsewhere."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.setup.conftest import write_program

UV = """
echo "$*" >> calls
case "$1" in venv)
    for folder; do :; done
    "{python}" -m venv --without-pip "$folder";;
esac
"""


def make(
    folder: Path, programs: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "setup", *arguments],
        cwd=folder,
        env={"PATH": str(programs), "HOME": str(folder), "LC_ALL": "C", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(folder: Path, programs: Path, *arguments: str, **environment: str) -> str:
    done = make(folder, programs, *arguments, **environment)
    assert done.returncode != 0
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(sentences) == 1, done.stderr
    assert not (folder / ".venv").exists()
    return sentences[0]


@pytest.fixture
def pretended(tmp_path):
    """Write code that every Python runs first, to pretend something about the machine."""

    def pretend(code: str) -> str:
        folder = tmp_path / "pretended"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(code)
        return str(folder)

    return pretend


def test_python_that_is_too_old(small_copy, programs):
    write_program(programs / "python3", 'case "$2" in *exit*) exit 1;; *) echo 3.9.2;; esac')
    sentence = refused(small_copy, programs)
    assert sentence.startswith(
        "The course needs Python 3.11 or newer (python3 is 3.9.2): install it, or name one"
    )


def test_no_python_at_all(small_copy, programs):
    (programs / "python3").unlink()
    assert "(python3 is not there)" in refused(small_copy, programs)


def test_a_newer_python_beside_an_old_one_is_found(small_copy, programs):
    write_program(programs / "python3", 'case "$2" in *exit*) exit 1;; *) echo 3.9.2;; esac')
    write_program(programs / "python3.12", f'exec "{sys.executable}" "$@"')
    write_program(programs / "uv", UV.format(python=sys.executable))
    assert make(small_copy, programs).returncode == 0


def test_named_python_that_is_none(small_copy, programs):
    sentence = refused(small_copy, programs, "PYTHON=/nonexistent/python3")
    assert sentence.startswith(
        "The course needs Python 3.11 or newer, but PYTHON=/nonexistent/python3 is no Python"
    )


def test_missing_venv_module(small_copy, programs, pretended):
    sentence = refused(
        small_copy, programs, PYTHONPATH=pretended("import sys; sys.modules['ensurepip'] = None")
    )
    version = ".".join(map(str, sys.version_info[:2]))
    assert sentence.startswith(f"This Python {version} has no venv module: install it")
    assert f"apt-get install python{version}-venv" in sentence


def test_full_disk(small_copy, programs, pretended):
    full = "import shutil; shutil.disk_usage = lambda path: shutil._ntuple_diskusage(9, 9, 123_000_000)"
    sentence = refused(small_copy, programs, PYTHONPATH=pretended(full))
    assert sentence == "The environment needs 1300 MB of disk, and 123 MB are free here."


def test_folder_that_cannot_be_written_to(small_copy, programs, pretended):
    locked = "import os; os.access = lambda path, mode: False"
    assert "cannot be written to" in refused(small_copy, programs, PYTHONPATH=pretended(locked))


def test_no_connection_to_the_index(small_copy, programs):
    write_program(programs / "uv", "echo 'error: dns error' >&2; exit 2")
    done = make(small_copy, programs)
    assert done.returncode != 0
    assert "The set-up failed for the reason above" in done.stderr
    assert "Traceback" not in done.stderr


def test_uv_is_used_made_once_and_fetches_no_python(small_copy, programs):
    write_program(programs / "uv", UV.format(python=sys.executable))
    assert make(small_copy, programs).returncode == 0
    calls = (small_copy / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["venv", "pip"]
    assert all("--no-python-downloads" in call for call in calls)
    assert f"--python {sys.executable}" in calls[0]
    assert "--require-hashes" in calls[1]
    assert make(small_copy, programs).returncode == 0
    assert (small_copy / "calls").read_text().splitlines() == calls, "the second time there is nothing to do"


def test_changed_requirements_and_cut_short_set_ups_are_made_again(small_copy, programs):
    write_program(programs / "uv", UV.format(python=sys.executable))
    make(small_copy, programs)
    (small_copy / "requirements.txt").write_text("# other\n")
    make(small_copy, programs)
    (small_copy / ".venv" / "qlab-setup").unlink()
    make(small_copy, programs)
    assert (small_copy / "calls").read_text().count("venv --quiet") == 3


def test_project_is_found_wherever_the_folder_lies(small_copy, programs, tmp_path):
    write_program(programs / "uv", UV.format(python=sys.executable))
    make(small_copy, programs)
    (small_copy / "qlab_is_here.py").touch()
    command = [small_copy / ".venv" / "bin" / "python", "-c", "import qlab_is_here"]
    assert subprocess.run(command, cwd=tmp_path, env={"LC_ALL": "C"}, check=False).returncode == 0


def test_without_a_home_there_is_no_cache(small_copy, programs):
    write_program(programs / "uv", UV.format(python=sys.executable))
    assert make(small_copy, programs, HOME="/nonexistent").returncode == 0
    assert all("--no-cache" in call for call in (small_copy / "calls").read_text().splitlines())


def test_two_at_once_take_turns(small_copy, programs):
    waits = "while ! test -e go; do read nothing < waiting || true; done"
    write_program(
        programs / "uv", f'case "$1" in pip) touch inside; {waits};; esac' + UV.format(python=sys.executable)
    )
    os.mkfifo(small_copy / "waiting")
    environment = {"PATH": str(programs), "HOME": str(small_copy)}
    options = {"cwd": small_copy, "env": environment, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen(["make", "setup"], **options)
    limit = time.monotonic() + 60
    while not (small_copy / "inside").exists():
        assert first.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.02)
    second = subprocess.Popen(["make", "setup"], **options)
    assert "Another set-up of this folder is running" in second.stdout.readline()
    (small_copy / "go").touch()
    (small_copy / "waiting").write_text("\n")
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert (small_copy / "calls").read_text().count("pip install") == 1
