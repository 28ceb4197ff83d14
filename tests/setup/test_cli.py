"""The command line: what it does with what it is given."""

import signal
import subprocess
import sys

import pytest

from qlab.ops import cli


def qlab(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qlab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("nowhere:worker", "there is no module 'nowhere'"),
        ("nowhere", "write module:attribute"),
        ("os:path", "not a qlab.Worker"),
    ],
)
def test_worker_that_is_none_is_one_sentence(tmp_path, spec, reason):
    done = qlab("worker", spec, cwd=tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_worker_runs_until_sigterm(tmp_path, prefix, redis_url, monkeypatch):
    monkeypatch.setenv("QLAB_PREFIX", prefix)
    handler = "import os, signal\nfrom qlab import Worker\n\nasync def handler(job): ...\n\n"
    (tmp_path / "mine.py").write_text(handler + "worker = Worker('emails', handler)\n")
    command = [sys.executable, "-m", "qlab", "worker", "mine:worker"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline(), "it says that it runs"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_commands_of_the_course_get_their_arguments():
    heard = []
    course = {"start": lambda options: heard.append(options.exercise) or 0}
    assert cli.main(["start", "ex04"], course) == 0
    assert heard == ["ex04"]


def test_ctrl_c_is_no_traceback():
    def interrupted(options):
        raise KeyboardInterrupt

    assert cli.main(["board"], {"board": interrupted}) == 130


def test_unknown_command():
    done = qlab("sing")
    assert done.returncode == 2
    assert "invalid choice: 'sing'" in done.stderr
