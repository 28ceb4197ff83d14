"""The doctor: all well here, and what it says when something is not."""

import subprocess
import sys

import pytest
import redis

from qlab.embedded import start
from qlab.ops import doctor, first_job, machine

NAMES = [
    "python",
    "packages",
    "memory",
    "disk",
    "progress folder",
    "port",
    "redis",
    "memory policy",
    "postgres",
]


def failed(checks: list[doctor.Check]) -> list[doctor.Check]:
    for check in checks:
        assert bool(check.fix) != check.ok, f"{check.name}: a fix for each failure, and none else"
        assert check.detail
    return [check for check in checks if not check.ok]


def test_all_is_well_here_and_nothing_is_left(redis_url, prefix):
    heard = []
    checks = doctor.diagnose(lambda check, done, total: heard.append((check.name, done, total)))
    assert failed(checks) == []
    assert [check.name for check in checks] == [*NAMES, "first job"]
    assert heard == [(check.name, number, 10) for number, check in enumerate(checks, 1)]


async def test_it_may_be_called_where_an_event_loop_runs(redis_url):
    assert first_job.run(redis_url).worker_pid > 0


def test_first_job_leaves_no_key(private_redis_url):
    first_job.run(private_redis_url)
    with redis.Redis.from_url(private_redis_url) as client:
        assert client.keys() == []


def test_a_worker_that_ends_is_reported_with_its_words(redis_url, monkeypatch):
    monkeypatch.setattr(first_job, "_WORKER", "raise SystemExit('no handler today')")
    with pytest.raises(first_job.FirstJobError, match=r"process ended too early: .*no handler today"):
        first_job.run(redis_url)


def test_redis_that_is_not_there_is_one_failed_check(monkeypatch, tmp_path):
    monkeypatch.setenv("QLAB_REDIS_URL", f"unix://:hunter2@{tmp_path}/none.sock")
    checks = doctor.diagnose()
    assert [check.name for check in failed(checks)] == ["servers"]
    assert "hunter2" not in checks[-1].detail


def test_eviction_is_a_danger(no_embedded, monkeypatch):
    with start(postgres=False) as servers, redis.Redis.from_url(servers.redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        checks = {check.name: check for check in doctor.diagnose(servers=servers)}
    assert not checks["memory policy"].ok
    assert checks["memory policy"].detail == "maxmemory-policy is allkeys-lru"
    assert not checks["postgres"].ok


def test_fakeredis_is_told(fakeredis_url, no_embedded, monkeypatch):
    monkeypatch.setenv("QLAB_REDIS_URL", fakeredis_url)
    monkeypatch.setenv("QLAB_REDIS_KIND", "fakeredis")
    with start(postgres=False) as servers:
        checks = {check.name: check for check in doctor.diagnose(servers=servers)}
    assert not checks["redis"].ok
    assert "cannot show" in checks["redis"].fix
    assert checks["memory policy"].ok
    assert checks["first job"].ok


def test_a_small_machine(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 50)
    monkeypatch.setattr(machine, "free_disk", lambda folder: 10)
    monkeypatch.setattr(machine, "packages", lambda names: (["nbval"], {}))
    monkeypatch.setattr(machine, "is_writable", lambda folder: False)
    names = [check.name for check in failed(doctor.diagnose())]
    assert names == ["packages", "memory", "disk", "progress folder"]


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("300000000\n")
    (tmp_path / "memory.current").write_text("100000000\n")
    assert machine.available_memory() == 200
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_memory() > 200


def in_a_terminal() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qlab", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_in_a_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "qlab", "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0].startswith("[1/10] ok   python: Python 3.")
    assert done.stdout.endswith("All is well.\n")


def test_in_a_terminal_when_something_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("QLAB_PG_DSN", f"postgresql://me:hunter2@/x?host={tmp_path}")
    done = subprocess.run(
        [sys.executable, "-m", "qlab", "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "FAIL servers: QLAB_PG_DSN names postgresql:///x?host=" in done.stdout
    assert "fix: Start your server, or unset its variable." in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


@pytest.fixture
def no_embedded(monkeypatch):
    """This test starts servers of its own."""
    for name in ("QLAB_REDIS_URL", "QLAB_REDIS_KIND", "QLAB_PG_DSN", "QLAB_PG_KIND"):
        monkeypatch.delenv(name, raising=False)
