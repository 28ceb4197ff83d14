"""Servers end with their owner, however it ends, and their folder is swept by the next one."""

import os
import signal
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
import redis

from qlab.embedded import rundir, start
from tests.embedded.owners import alive, wait_until


def run_folder(redis_url: str) -> Path:
    return Path(unquote(urlsplit(redis_url).path)).parent.parent


@pytest.mark.parametrize("where", ["main", "thread"])
def test_no_server_is_left_after_sigkill_of_the_owner(own_owner, where):
    owner = own_owner(where)
    about = owner.about()
    with psycopg.connect(about["pg"]) as connection, redis.Redis.from_url(about["redis"]) as client:
        client.ping()
        backend = connection.info.backend_pid  # a client keeps PostgreSQL busy while its owner is killed
        servers = owner.descendants()
        assert backend in {process.pid for process in servers}
        owner.kill()
        wait_until(lambda: not alive(servers))
        connection.close()


def test_no_server_is_left_after_sigterm_of_the_owner(own_owner):
    owner = own_owner("main")
    owner.about()
    servers = owner.descendants()
    owner.process.terminate()
    wait_until(lambda: not alive(servers))


@pytest.mark.parametrize("where", ["main", "thread"])
def test_interrupt_of_the_owners_group_does_not_reach_the_servers(own_owner, where):
    owner = own_owner(where, start_new_session=True)
    about = owner.about()
    os.killpg(owner.process.pid, signal.SIGINT)
    owner.process.wait()
    assert run_folder(about["redis"]).exists() is False, "Ctrl-C is an ordinary end: the servers were closed"


@pytest.mark.parametrize("where", ["main", "thread"])
def test_close_leaves_neither_process_nor_folder(own_owner, where):
    owner = own_owner(where)
    about = owner.about()
    servers, folder = owner.descendants(), run_folder(about["redis"])
    assert folder.is_dir()
    assert "closed" in owner.close()
    assert not alive(servers)
    assert not folder.exists()


def test_stale_folder_is_swept_and_a_living_one_is_not(own_owner):
    dead, living = own_owner("main", "no-postgres"), own_owner("main", "no-postgres")
    dead_folder, living_folder = run_folder(dead.about()["redis"]), run_folder(living.about()["redis"])
    dead.kill()
    assert dead_folder.is_dir()
    own_owner("main", "no-postgres").about()
    assert not dead_folder.exists()
    assert living_folder.is_dir()
    assert "closed" in living.close()


def test_sweep_leaves_folders_alone_that_are_not_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(rundir, "base_folder", lambda: tmp_path)
    for name in ("qlab-notes", "qlab-new-young", "somebody-else"):
        (tmp_path / name).mkdir()
    (tmp_path / "qlab-run-file").touch()
    (tmp_path / "qlab-run-link").symlink_to(tmp_path / "somebody-else")
    (tmp_path / "qlab-run-dead").mkdir()
    with_owner = rundir.create()
    assert rundir.sweep() == [tmp_path / "qlab-run-dead"]
    assert with_owner.path.is_dir()
    with_owner.remove()
    assert not with_owner.path.exists()


def test_folder_shows_nothing_to_others(no_servers):
    with start(postgres=False) as servers:
        folder = run_folder(servers.redis_url)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o711
        assert stat.S_IMODE((folder / "redis" / "valkey.conf").stat().st_mode) == 0o600
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(unix_socket_path=str(folder / "redis" / "redis.sock")).ping()


def test_a_forked_child_does_not_stop_the_servers(no_servers):
    with start(postgres=False) as servers:
        servers._owner = -1  # what a forked child sees: the owner is another process
        servers.close()
        servers._owner = os.getpid()
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
