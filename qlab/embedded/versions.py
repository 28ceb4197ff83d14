"""What the servers say they are."""


def redis_version(url: str, kind: str) -> str:
    """Name and version of the Redis at `url`, for instance "Valkey 9.1.2"."""
    if kind == "fakeredis":  # it has no INFO
        from importlib.metadata import version

        return f"fakeredis {version('fakeredis')}"
    import redis

    client = redis.Redis.from_url(url)
    info = client.info("server")
    client.close()
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def postgres_version(dsn: str) -> str:
    """Name and version of the PostgreSQL at `dsn`, for instance "PostgreSQL 18.1"."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        version = connection.info.parameter_status("server_version") or "of unknown version"
    return f"PostgreSQL {version.split(' (')[0]}"
