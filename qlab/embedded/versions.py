"""What the servers say they are."""


def redis_version(url: str, kind: str) -> str:
    """Name and version of the Redis at `url`, for instance "Valkey 9.1.2"."""
    if kind == "fakeredis":  # it has no INFO
        from importlib.metadata import version

        return f"fakeredis {version('fakeredis')}"
    import redis

    with redis.Redis.from_url(url) as client:
        info = client.info("server")
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def postgres_version(dsn: str) -> str:
    """Name and version of the PostgreSQL at `dsn`, for instance "PostgreSQL 18.1"."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        return (
            "PostgreSQL "
            + connection.info.parameter_status("server_version").split()[0]
        )  # type: ignore[union-attr]
