"""Servers of the user's own: are they there, and are they what they are said to be? One sentence when not."""

import math

from .errors import ServerError
from .urls import without_password

_TIMEOUT = 5.0  # seconds
_ESCAPES = "in a password write @ as %40, / as %2F, # as %23, ? as %3F"
_NO_REDIS_ADDRESS = (
    f"that is not an address of a Redis (redis://host:port/0, rediss://… or unix:///path; {_ESCAPES})"
)


def check_redis(url: str) -> None:
    """Return when a Redis answers at `url`, else raise `ServerError`."""
    reason = redis_error(url)
    if reason:
        raise ServerError(
            f"QLAB_REDIS_URL names {without_password(url)}, but {reason}. Start it or correct the address, "
            "or unset QLAB_REDIS_URL to use the embedded server."
        )


def redis_error(url: str) -> str | None:
    """None when a Redis answers at `url`, else what is wrong, without the address."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        client = redis.Redis.from_url(
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
    except ValueError:
        return _NO_REDIS_ADDRESS
    try:
        client.ping()
    except TypeError:  # an option that the client does not know
        return _NO_REDIS_ADDRESS
    except redis.AuthenticationError:
        return "it refuses this user name and password"
    except redis.TimeoutError:
        return f"nothing answers there within {_TIMEOUT:.0f} s"
    except redis.ConnectionError as error:
        return _connection_reason(error)
    except (
        redis.RedisError,
        OSError,
        ValueError,
    ):  # whatever another protocol's greeting looks like to the parser
        return "what answers there is not a Redis"
    finally:
        client.close()
    return None


def _connection_reason(error: Exception) -> str:
    import redis

    if isinstance(error, redis.BusyLoadingError):
        return "it is still loading its data"
    text = str(error)
    if (
        isinstance(error, redis.exceptions.InvalidResponse)
        or "Protocol Error" in text
        or "closed by server" in text
    ):
        return "what answers there is not a Redis"
    return "it cannot be reached"


def check_postgres(dsn: str) -> None:
    """Return when a PostgreSQL answers at `dsn`, else raise `ServerError`."""
    reason = postgres_error(dsn)
    if reason:
        raise ServerError(
            f"QLAB_PG_DSN names {without_password(dsn)}, but {reason}. Start it or correct the address, "
            "or unset QLAB_PG_DSN to use the embedded server."
        )


def postgres_error(dsn: str) -> str | None:
    """None when a PostgreSQL answers at `dsn`, else what is wrong. libpq's words may hold the address."""
    try:
        import psycopg
    except ImportError:
        return "psycopg is not installed (pip install 'qlab-course[postgres]')"
    try:
        psycopg.connect(dsn, connect_timeout=math.ceil(_TIMEOUT)).close()
    except psycopg.ProgrammingError:
        return f"that is not an address of a PostgreSQL (postgresql://user@host:5432/database; {_ESCAPES})"
    except psycopg.errors.ConnectionTimeout:
        return f"nothing that is a PostgreSQL answers there within {_TIMEOUT:.0f} s"
    except psycopg.OperationalError as error:
        return _refusal(error.sqlstate or "", str(error))
    return None


def _refusal(sqlstate: str, text: str) -> str:
    if sqlstate.startswith("28") or "authentication failed" in text or "no password supplied" in text:
        return "it refuses this user name and password"
    if sqlstate == "3D000" or ("database" in text and "does not exist" in text):
        return "it has no database of that name"
    if (
        "invalid response to SSL" in text
        or "expected authentication request" in text
        or "server closed" in text
    ):
        return "what answers there is not a PostgreSQL"
    return "it cannot be reached"
