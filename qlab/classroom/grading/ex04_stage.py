"""The stage of exercise 4 in the answer's process: a pool on its database, the provider on a socket."""

from typing import Any

from psycopg_pool import AsyncConnectionPool

from qlab.classroom.ex04 import ChargeJob
from qlab.classroom.grading.child import Stage
from qlab.testing import ProviderClient


async def open_stage(config: dict[str, Any]) -> Stage:
    """Connect to what the grader offers; returns what carries out one call."""
    size = config["connections"]
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        config["dsn"], min_size=size, max_size=10, open=False
    )
    await pool.open()
    await pool.wait()
    provider = ProviderClient("http://provider", uds=config["provider"], timeout=60)

    async def call(names: dict[str, Any], command: dict[str, Any]) -> Any:
        job = ChargeJob(command["job"], command["data"])
        return await names["handle_charge"](pool, provider, job)

    return call
