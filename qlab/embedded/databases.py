"""Databases of one's own on a PostgreSQL: made from a template, dropped with whoever is still connected."""

from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit


def create_database(pg_dsn: str, name: str, *, template: str = "template1") -> str:
    """Make the database `name` as a copy of `template` on the server of `pg_dsn`; return its DSN.

    Raises `psycopg.errors.DuplicateDatabase` when it exists, `psycopg.errors.ObjectInUse` while somebody is
    connected to the template.
    """
    from psycopg import sql

    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(template)
    )
    _execute(pg_dsn, statement)
    return with_database(pg_dsn, name)


def drop_database(pg_dsn: str, name: str) -> None:
    """Drop the database `name` and end its connections; nothing happens when there is none.

    `pg_dsn` must name another database of the same server.
    """
    from psycopg import sql

    _execute(pg_dsn, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def with_database(pg_dsn: str, name: str) -> str:
    """`pg_dsn` (a URI or a libpq key=value string) with another database."""
    if "://" in pg_dsn:
        return urlunsplit(urlsplit(pg_dsn)._replace(path="/" + quote(name, safe="")))
    from psycopg.conninfo import make_conninfo

    return make_conninfo(pg_dsn, dbname=name)


def _execute(pg_dsn: str, statement: Any) -> None:
    import psycopg

    with psycopg.connect(pg_dsn, autocommit=True) as connection:  # neither statement may run in a transaction
        connection.execute(statement)
