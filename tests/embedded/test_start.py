"""Starting: many at once, in folders with any name, with any umask, without a home."""

import os

import psycopg
import pytest
import redis
import redis.asyncio

from qlab.embedded import ServerError, create_database, drop_database, rundir, start, valkey

EMBEDDED = ["valkey", "postgres"]


def answers(about: dict) -> bool:
    with redis.Redis.from_url(about["redis"]) as client, psycopg.connect(about["pg"]) as connection:
        return client.ping() and connection.execute("SELECT 1").fetchone() == (1,)


def test_six_processes_at_once_all_get_servers(own_owner):
    owners = [own_owner("main") for _ in range(6)]
    abouts = [owner.about() for owner in owners]
    assert [about["kinds"] for about in abouts] == [EMBEDDED] * 6
    assert all(answers(about) for about in abouts)
    assert len({about["redis"] for about in abouts} | {about["pg"] for about in abouts}) == 12


def test_without_a_home_and_under_a_strict_umask(own_owner):
    owner = own_owner("main", environment={"HOME": "/nonexistent"}, umask=0o077)
    about = owner.about()
    assert about["kinds"] == EMBEDDED
    assert answers(about)
    assert about["notices"] == []


def test_in_a_temporary_folder_with_spaces_and_vietnamese_letters(own_owner, short_folder):
    folder = short_folder / "thư mục tạm số 1"
    folder.mkdir()
    folder.chmod(0o711)
    about = own_owner("main", environment={"TMPDIR": str(folder)}).about()
    assert about["kinds"] == EMBEDDED
    assert answers(about)
    assert [path.name[:9] for path in folder.glob("qlab-run-*")] == ["qlab-run-"] * 2


def test_a_temporary_folder_whose_name_is_too_long_for_a_socket(own_owner, tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    about = own_owner("main", environment={"TMPDIR": str(folder)}).about()
    assert about["kinds"] == EMBEDDED
    assert list(folder.iterdir()) == []


def test_a_comma_would_split_the_address(monkeypatch, short_folder):
    monkeypatch.setattr(rundir.tempfile, "gettempdir", lambda: str(short_folder / "a,b"))
    assert str(rundir.base_folder()) == "/tmp"


def test_no_folder_for_a_socket_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(rundir.tempfile, "gettempdir", lambda: str(tmp_path / ("x" * 100)))
    monkeypatch.setattr(rundir.os, "access", lambda path, mode: False)
    with pytest.raises(ServerError, match=r"too long a name for a socket .* set TMPDIR"):
        rundir.base_folder()


async def test_the_same_url_serves_sync_and_asyncio_clients(no_servers):
    with start(postgres=False) as servers:
        with redis.Redis.from_url(servers.redis_url) as client:
            client.set("greeting", "xin chào")
        async with redis.asyncio.Redis.from_url(servers.redis_url, decode_responses=True) as client:
            assert await client.get("greeting") == "xin chào"


def test_versions_and_environment(no_servers):
    with start() as servers:
        versions = servers.versions()
        assert versions["redis"].startswith("Valkey 9.")
        assert versions["postgres"].startswith("PostgreSQL 18")
        assert servers.environment() == {
            "QLAB_REDIS_URL": servers.redis_url,
            "QLAB_REDIS_KIND": "valkey",
            "QLAB_PG_DSN": servers.pg_dsn,
            "QLAB_PG_KIND": "postgres",
        }


def test_the_kind_is_kept_in_processes_that_inherit_the_servers(no_servers, monkeypatch):
    with start() as servers:
        for name, value in servers.environment().items():
            monkeypatch.setenv(name, value)
        with start() as inherited:
            assert (inherited.redis_kind, inherited.pg_kind) == ("valkey", "postgres")
            assert inherited.redis_url == servers.redis_url


def test_databases_are_made_from_a_template_and_dropped_while_in_use(pg_dsn):
    with psycopg.connect(pg_dsn) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        template = connection.info.dbname
    name = f'{template} bản "sao"'
    copy = create_database(os.environ["QLAB_PG_DSN"], name, template=template)
    with psycopg.connect(copy) as connection:
        assert connection.info.dbname == name
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
        drop_database(os.environ["QLAB_PG_DSN"], name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    drop_database(os.environ["QLAB_PG_DSN"], name)  # none there: nothing happens


def test_the_allocator_of_valkey_keeps_its_free_pieces(monkeypatch, short_folder):
    """Without that a command takes the longer the more jobs there are: docs/performance.md."""
    environments = []

    def spawn(*_, environment, **__):
        environments.append(environment)
        raise ServerError("seen enough")

    monkeypatch.setattr(valkey, "spawn", spawn)
    with pytest.raises(ServerError, match="seen enough"):
        valkey.start(short_folder / "valkey")
    assert environments[0]["GLIBC_TUNABLES"] == "glibc.malloc.tcache_count=60000"
