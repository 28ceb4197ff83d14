"""Private Valkey and PostgreSQL servers from pip wheels: started in under a second, gone with their process.

    from qlab.embedded import start

    with start() as servers:
        print(servers.redis_url, servers.pg_dsn, servers.versions())

This package knows nothing of the rest of qlab.
"""

from .choice import Servers, start
from .databases import create_database, drop_database, with_database
from .errors import ServerError
from .urls import with_redis_database, without_password

__all__ = [
    "ServerError",
    "Servers",
    "create_database",
    "drop_database",
    "start",
    "with_database",
    "with_redis_database",
    "without_password",
]
