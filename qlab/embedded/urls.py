"""Addresses of servers: build them, show them without their password, point them at another database."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

UNREADABLE = "(an address that cannot be read)"
_SECRET_OPTIONS = {"password", "sslpassword"}


def redis_socket_url(path: str, password: str) -> str:
    """URL of a Redis that listens on the Unix socket `path` (redis-py reads it, sync and asyncio alike)."""
    return f"unix://:{quote(password, safe='')}@{quote(path)}?db=0"


def postgres_socket_dsn(folder: str, user: str, password: str, database: str = "postgres") -> str:
    """libpq URI of a PostgreSQL that listens on a Unix socket in `folder`."""
    host = quote(folder, safe="")
    return f"postgresql://{user}:{quote(password, safe='')}@/{quote(database, safe='')}?host={host}"


def without_password(url: str) -> str:
    """`url` for a message: the password is left out. What cannot be parsed is not shown at all."""
    if "://" not in url:
        return _conninfo_without_password(url)
    before, at, _ = url.partition("://")[2].rpartition("@")
    if at and any(sign in before for sign in "/?#"):
        return UNREADABLE  # where the password ends is anybody's guess
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = urlencode(
            [(k, v) for k, v in parse_qsl(parts.query) if k.lower() not in _SECRET_OPTIONS], safe="/"
        )
        return f"{parts.scheme}://{host}{parts.path}" + (f"?{query}" if query else "")
    except ValueError:
        return UNREADABLE


def _conninfo_without_password(conninfo: str) -> str:
    """Of a libpq `key=value` string show only where it points."""
    shown = [word for word in conninfo.split() if word.startswith(("host=", "hostaddr=", "port=", "dbname="))]
    return " ".join(shown) or UNREADABLE


def with_redis_database(url: str, number: int) -> str:
    """`url` with the Redis database `number` (0 is the default of every server)."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    query.pop("db", None)
    if parts.scheme == "unix":
        return urlunsplit(parts._replace(query=urlencode({**query, "db": number}, safe="/")))
    return urlunsplit(parts._replace(path=f"/{number}", query=urlencode(query, safe="/")))
