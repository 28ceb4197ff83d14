"""The fixtures of tests/conftest.py: a stray key fails its test; a test's own keys are gone after it."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "conftest.py"
TESTS = """
import pytest, redis as client

async def test_good(redis, prefix):
    await redis.set(f"{prefix}:{{q}}:job:1", "mine")

async def test_after(redis):
    assert await redis.keys("*") == []

def test_stray(redis_url, prefix):
    with client.Redis.from_url(redis_url) as connection:
        connection.set("elsewhere", "a leak")

def test_other_databases_exist(pg_dsn, private_redis_url, fakeredis_url, redis_url):
    assert len({pg_dsn, private_redis_url, fakeredis_url, redis_url}) == 4
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_it.py").write_text(TESTS)
    settings = [
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
        "-o",
        "asyncio_mode=auto",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", "-v", "-W", "ignore", *settings, *options, str(folder)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("QLAB_", "PYTEST_"))
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_stray_key_fails_its_test(tmp_path):
    done = run(tmp_path)
    assert "4 passed, 1 error" in done.stdout, done.stdout
    assert "keys outside the prefix" in done.stdout
    assert "['elsewhere']" in done.stdout


def test_the_same_in_several_processes_and_on_fakeredis(tmp_path):
    done = run(tmp_path, "-n", "2", "--redis", "fakeredis")
    assert "4 passed, 1 error" in done.stdout, done.stdout
