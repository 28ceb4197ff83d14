"""The fixtures themselves: a leak is seen, a test's keys are gone afterwards."""

import pytest

pytest_plugins = ["pytester"]


async def test_pair_answers(redis, pg_dsn):
    import psycopg

    assert await redis.ping()
    with psycopg.connect(pg_dsn) as connection:
        assert connection.execute("SELECT current_database()").fetchone()[0].startswith("test_")
