"""Servers of the user's own: taken when they are there, one sentence without a password when not."""

import http.server
import socket
import socketserver
import threading

import pytest
import redis

from qlab.embedded import ServerError, external, start, with_database, with_redis_database, without_password

SECRET = "hunter2"


@pytest.fixture
def web_server():
    """A server that is neither a Redis nor a PostgreSQL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        server.RequestHandlerClass.log_message = lambda *arguments: None
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def greeting_server():
    """A server that speaks first, as those for mail and remote shells do."""

    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"220 mail.example ready\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_server(monkeypatch):
    """A server that takes connections and says nothing."""
    monkeypatch.setattr(external, "_TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def refused(monkeypatch, **environment: str) -> str:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServerError) as caught:
        start()
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


def test_own_servers_are_used_and_left_running(pg_dsn, no_servers, monkeypatch):
    with start(postgres=False) as own:
        monkeypatch.setenv("QLAB_REDIS_URL", own.redis_url)
        monkeypatch.setenv("QLAB_PG_DSN", pg_dsn)
        with start() as servers:
            assert (servers.redis_kind, servers.pg_kind) == ("external", "external")
            assert (servers.redis_url, servers.pg_dsn) == (own.redis_url, pg_dsn)
        with redis.Redis.from_url(own.redis_url) as client:
            assert client.ping()


def test_redis_that_is_not_there(no_servers, monkeypatch, free_port):
    message = refused(monkeypatch, QLAB_REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{free_port}/0")
    assert message.startswith(
        f"QLAB_REDIS_URL names redis://127.0.0.1:{free_port}/0, but it cannot be reached."
    )


def test_redis_socket_that_is_not_there(no_servers, monkeypatch, tmp_path):
    message = refused(monkeypatch, QLAB_REDIS_URL=f"unix://:{SECRET}@{tmp_path}/none.sock")
    assert "it cannot be reached" in message


def test_redis_that_is_a_web_server(no_servers, monkeypatch, web_server):
    message = refused(monkeypatch, QLAB_REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{web_server}/0")
    assert "what answers there is not a Redis" in message


def test_redis_that_says_nothing(no_servers, monkeypatch, silent_server):
    message = refused(monkeypatch, QLAB_REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{silent_server}/0")
    assert "nothing answers there" in message


def test_redis_that_refuses_the_password(no_servers, monkeypatch):
    with start(postgres=False) as own:
        path = own.redis_url.partition("@")[2]
        message = refused(monkeypatch, QLAB_REDIS_URL=f"unix://:{SECRET}@{path}")
    assert "it refuses this user name and password" in message


@pytest.mark.parametrize("url", ["localhost:6379", f"http://me:{SECRET}@localhost", "redis://localhost:port"])
def test_redis_address_that_is_none(no_servers, monkeypatch, url):
    assert "that is not an address of a Redis" in refused(monkeypatch, QLAB_REDIS_URL=url)


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("postgresql://me:{SECRET}@127.0.0.1:{free}/x", "it cannot be reached"),
        ("host=127.0.0.1 port={free} password={SECRET} dbname=x", "it cannot be reached"),
        ("postgresql://me:{SECRET}@127.0.0.1:{greeter}/x", "what answers there is not a PostgreSQL"),
        ("postgresql://me:{SECRET}@127.0.0.1:{silent}/x", "nothing that is a PostgreSQL answers there"),
        ("postgresql://me:{SECRET}@[127.0.0.1/x", "that is not an address of a PostgreSQL"),
        ("password={SECRET} nonsense", "that is not an address of a PostgreSQL"),
        ("postgresql://me:{SECRET}@/postgres?host={folder}", "it refuses this user name and password"),
        ("{dsn}_missing", "it has no database of that name"),
    ],
)
def test_postgres_that_is_wrong(monkeypatch, free_port, greeting_server, silent_server, pg_dsn, dsn, reason):
    folder = pg_dsn.partition("host=")[2]
    named = with_database(pg_dsn, "no such") if dsn.startswith("{dsn}") else dsn
    ports = {"free": free_port, "greeter": greeting_server, "silent": silent_server}
    named = named.format(SECRET=SECRET, folder=folder, **ports)
    message = refused(monkeypatch, QLAB_PG_DSN=named)
    assert message.startswith("QLAB_PG_DSN names ")
    assert reason in message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://:{SECRET}@host:1/0", "redis://host:1/0"),
        (
            f"postgresql://me@host/db?password={SECRET}&sslmode=require",
            "postgresql://host/db?sslmode=require",
        ),
        (f"host=h user=me password='{SECRET} {SECRET}' dbname=db", "host=h dbname=db"),
        (f"redis://:{SECRET}@[host", "(an address that cannot be read)"),
        (SECRET, "(an address that cannot be read)"),
        (f"redis://x:{SECRET}/Pw@host:1/0", "(an address that cannot be read)"),
        (f"redis://x:{SECRET}#Pw@host:1/0", "(an address that cannot be read)"),
        (f"postgresql://me:{SECRET}?Pw@host/db", "(an address that cannot be read)"),
    ],
)
def test_addresses_are_shown_without_their_password(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("redis://h:1/0", "redis://h:1/5"),
        ("redis://:p@h", "redis://:p@h/5"),
        ("redis://h/0?db=2&protocol=3", "redis://h/5?protocol=3"),
        ("unix://:p@/a%20b/s?db=0", "unix://:p@/a%20b/s?db=5"),
    ],
)
def test_another_redis_database(url, other):
    assert with_redis_database(url, 5) == other


def test_another_postgres_database():
    assert with_database("postgresql://me:p@/one?host=/x", "hai ba") == "postgresql://me:p@/hai%20ba?host=/x"
    assert set(with_database("host=h dbname=one", "two").split()) == {"host=h", "dbname=two"}
