"""One kill-test from start to end."""

import asyncio
import contextlib
import os
import random
import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qlab import Queue, RedisUnavailable
from qlab.embedded import create_database, drop_database, start, valkey
from qlab.embedded.rundir import create as create_folder
from qlab.testing.kill_test import ledger
from qlab.testing.kill_test.fleet import Fleet
from qlab.testing.kill_test.setting import KillTestError, Setting
from qlab.testing.kill_test.workers import QUEUE

BACKLOG = 1000
"""Jobs that the producer is ahead of the workers: it still adds when Redis is killed."""

PATIENCE = 60.0
"""Seconds without one more job done after which the rest counts as lost."""


def run(setting: Setting) -> dict[str, Any]:
    """Run it and return what was counted. Raises KillTestError if it cannot be run."""
    with contextlib.ExitStack() as closing:
        folder = create_folder()
        closing.callback(folder.remove)
        servers = closing.enter_context(start())
        if servers.pg_dsn is None:
            raise KillTestError("the kill-test keeps its ledger in PostgreSQL, and none runs here")
        database = f"kill_test_{secrets.token_hex(6)}"
        dsn = create_database(servers.pg_dsn, database)
        closing.callback(drop_database, servers.pg_dsn, database)
        ledger.create(dsn)
        redis = _Redis(setting, folder.path / "durable", servers.redis_url)
        closing.callback(redis.close)
        return asyncio.run(_run(setting, folder.path, redis, dsn))


class _Redis:
    """The Redis of the run; one of its own, which writes to a file, if it is to be killed."""

    def __init__(self, setting: Setting, folder: Path, url: str) -> None:
        self.url, self._folder, self._policy = url, folder, setting.appendfsync
        self._process = None
        if setting.redis_restart:
            self._process, self.url = valkey.start(folder, appendfsync=self._policy)

    def kill(self) -> None:
        """SIGKILL it and start it again on the files it left."""
        self.close()
        self._process, self.url = valkey.start(self._folder, appendfsync=self._policy)

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()


async def _run(setting: Setting, folder: Path, redis: _Redis, dsn: str) -> dict[str, Any]:
    prefix = f"kill-test-{secrets.token_hex(6)}"
    environment = os.environ | {"QLAB_REDIS_URL": redis.url, "QLAB_PREFIX": prefix, "QLAB_PG_DSN": dsn}
    ids = [f"pay-{n:06}" for n in range(setting.jobs)]
    async with Queue(QUEUE, redis.url, prefix=prefix) as queue:
        begin = time.monotonic()
        fleet = Fleet(setting, folder, environment)
        producer = asyncio.create_task(_produce(queue, ids))
        try:
            await _kill_until_done(setting, queue, fleet, redis)
            await producer
        finally:
            producer.cancel()
            fleet.close()
        took = time.monotonic() - begin
        ended = {state: await _ids(queue, state) for state in ("completed", "failed")}
        await queue.connection.delete_all()  # a job that is still active would make `obliterate` refuse
    return _result(setting, took, ids, ended, dsn)


async def _produce(queue: Queue, ids: list[str]) -> None:
    for first in range(0, len(ids), 50):
        jobs = [
            ("pay", None, {"job_id": one, "remove_on_complete": False}) for one in ids[first : first + 50]
        ]
        while first - sum((await _counts(queue, "completed", "failed")).values()) >= BACKLOG:
            await asyncio.sleep(0.02)
        while True:
            try:
                await queue.add_bulk(jobs)
                break
            except RedisUnavailable:  # not known whether it has run: the ids make it safe to say it again
                await asyncio.sleep(0.05)


async def _counts(queue: Queue, *states: str) -> dict[str, int]:
    while True:
        try:
            return await queue.get_job_counts(*states)
        except RedisUnavailable:
            await asyncio.sleep(0.05)


async def _kill_until_done(setting: Setting, queue: Queue, fleet: Fleet, redis: _Redis) -> None:
    rng = random.Random(setting.seed)
    moments = sorted(rng.uniform(0, 0.95) * setting.jobs for _ in range(setting.kills))
    restart = rng.uniform(0.3, 0.7) * setting.jobs if setting.redis_restart else None
    progress, latest = 0, time.monotonic()
    while progress < setting.jobs or moments:
        counts = await _counts(queue, "completed", "failed")
        if (done := sum(counts.values())) > progress:
            progress, latest = done, time.monotonic()
        if time.monotonic() - latest > PATIENCE:
            return  # the rest is lost; the result says so
        fleet.check()
        if moments and done >= moments[0]:
            await asyncio.sleep(rng.uniform(0, 2 * setting.work))  # at any phase of a job
            fleet.kill_one(rng)
            del moments[0]
        if restart is not None and done >= restart:
            restart = None
            redis.kill()
        await asyncio.sleep(0.01)


async def _ids(queue: Queue, state: str) -> set[str]:
    return set(await queue.connection.command("ZRANGE", queue.keys[state], 0, -1))


def _result(
    setting: Setting, took: float, ids: list[str], ended: dict[str, set[str]], dsn: str
) -> dict[str, Any]:
    lost = set(ids) - ended["completed"] - ended["failed"]
    lost |= ended["completed"] - ledger.job_ids(dsn)  # said to be done, and never ran
    options = asdict(setting)
    for shown in ("jobs", "kills", "seed"):
        del options[shown]
    return {
        "TOTAL": setting.jobs, "secs": round(took, 1), "completed": len(ended["completed"]),
        "failed": len(ended["failed"]), **ledger.counts(dsn), "lost": len(lost), "kills": setting.kills,
        "seed": setting.seed, "setting": options,
    }  # fmt: skip
