"""Without a Valkey that runs: fakeredis over TCP, with a notice of what it cannot show."""

import os
import stat
import threading
from pathlib import Path

import pytest
import redis

from qlab.embedded import ServerError, account, postgres, start, valkey


def no_program():
    raise ServerError("No Valkey program for plan9 on vax is installed.")


def test_fakeredis_takes_over_with_a_notice(no_servers, monkeypatch):
    monkeypatch.setattr(valkey, "_program", no_program)
    with start(postgres=False) as servers:
        assert servers.redis_kind == "fakeredis"
        assert servers.redis_url.startswith("redis://127.0.0.1:")
        assert servers.versions()["redis"].startswith("fakeredis ")
        assert servers.notices[0] == "No Valkey runs here: No Valkey program for plan9 on vax is installed."
        assert "cannot show: CONFIG, INFO" in servers.notices[1]
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.eval("return redis.call('TIME')[1]", 0)


def test_a_valkey_that_does_not_run_here_is_replaced_too(no_servers, monkeypatch, tmp_path):
    program = tmp_path / "valkey-server"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    monkeypatch.setattr(valkey, "_program", lambda: (tmp_path, program.name))
    monkeypatch.setattr(account, "_bases", lambda: [tmp_path])
    tmp_path.chmod(0o755)
    with start(postgres=False) as servers:
        assert servers.redis_kind == "fakeredis"
        assert "ended at once" in servers.notices[0]


def test_insisting_on_valkey_is_an_error_where_there_is_none(no_servers, monkeypatch):
    monkeypatch.setattr(valkey, "_program", no_program)
    with pytest.raises(ServerError, match="No Valkey program"):
        start(postgres=False, redis="valkey")


def test_missing_postgres_is_a_notice(no_servers, monkeypatch):
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with start() as servers:
        assert (servers.redis_kind, servers.pg_dsn, servers.pg_kind) == ("valkey", None, "none")
        assert servers.notices == [
            "No PostgreSQL runs here, so the parts that need it cannot be run: "
            "No PostgreSQL program for this system is installed."
        ]
        assert "QLAB_PG_DSN" not in servers.environment()


@pytest.fixture
def tree(tmp_path):
    """Programs below a folder that nobody else may enter."""
    root = tmp_path / "wheel"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "server").write_text("program")
    (root / "bin" / "server").chmod(0o700)
    (root / "share.txt").write_text("data")
    (root / "share.txt").chmod(0o600)
    root.chmod(0o700)
    return root


def test_programs_are_copied_for_the_other_account(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(account, "_bases", lambda: [tmp_path])
    other = account.Account("somebody", 12345, 12345)
    previous = os.umask(0o077)
    try:
        copy = account.readable_programs(tree, ["bin", "share.txt"], "x-1", other)
    finally:
        os.umask(previous)
    assert copy == tmp_path / "qlab-programs-x-1-0"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [copy, *copy.rglob("*")]}
    assert modes == {copy.name: 0o755, "bin": 0o755, "server": 0o755, "share.txt": 0o644}
    assert account.readable_programs(tree, ["bin", "share.txt"], "x-1", other) == copy, "copied once"


def test_a_damaged_copy_is_not_used(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(account, "_bases", lambda: [tmp_path])
    other = account.Account("somebody", 12345, 12345)
    first = account.readable_programs(tree, ["bin", "share.txt"], "x-1", other)
    (first / "share.txt").unlink()
    second = account.readable_programs(tree, ["bin", "share.txt"], "x-1", other)
    assert second != first
    second.chmod(0o777)  # anybody could have changed it
    assert account.readable_programs(tree, ["bin", "share.txt"], "x-1", other) not in (first, second)


def test_several_processes_may_copy_at_once(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(account, "_bases", lambda: [tmp_path])
    other = account.Account("somebody", 12345, 12345)
    found: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(account.readable_programs(tree, ["bin", "share.txt"], "x-1", other))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {tmp_path / "qlab-programs-x-1-0"}
    assert len(found) == 8
    assert not list(tmp_path.glob("qlab-new-*"))


def test_nothing_is_copied_when_servers_run_as_ourselves(tree):
    assert account.readable_programs(tree, ["bin"], "x-1", None) == tree
