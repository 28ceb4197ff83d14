"""A worker in a process of its own, with a ledger in Redis that the handler writes itself."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

MODULE = '''
"""Handlers of the fault tests. Each start is written to a ledger with the server's clock."""
import asyncio, os, time
import redis.asyncio
from qlab import Worker

LEDGER = os.environ["LEDGER"]
ledger = redis.asyncio.Redis.from_url(os.environ["QLAB_REDIS_URL"], decode_responses=True)


async def handler(job):
    await ledger.rpush(LEDGER, f"start {os.environ['NAME']} {job.id}")
    kind, value = job.data
    if kind == "block" and os.environ["NAME"] in value["who"]:
        time.sleep(value["seconds"])
    elif kind == "sleep":
        await asyncio.sleep(value)
    elif kind == "die":
        os._exit(1)
    await ledger.rpush(LEDGER, f"end {os.environ['NAME']} {job.id}")
    return os.environ["NAME"]


def plain(job):
    time.sleep(job.data["seconds"])
    return os.environ["NAME"]


options = dict(name=os.environ["NAME"], concurrency=int(os.environ["CONCURRENCY"]),
               lock_duration=float(os.environ["LOCK"]), stalled_interval=float(os.environ["CHECK"]))
worker = Worker("q", handler, **options)


def plain_worker():
    return Worker("q", plain, **options)


not_a_worker = 7


def with_a_bad_option():
    return Worker("q", handler, concurrency=0)
'''


class WorkerProcess:
    """`python -m qlab worker jobs:worker`; killed when the test ends.

    `spec` names a worker of MODULE (`jobs:...`) or of field_jobs.py (`field_jobs:...`); `settings` are more
    variables of its environment, `arguments` more words of its command line.
    """

    def __init__(self, folder: Path, name: str, *, redis_url: str, prefix: str, spec: str = "jobs:worker",
                 lock: float = 0.6, check: float = 0.3, concurrency: int = 1,
                 arguments: tuple[str, ...] = (), **settings: object) -> None:  # fmt: skip
        (folder / "jobs.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
        shutil.copy(Path(__file__).with_name("field_jobs.py"), folder)
        self.log = folder / f"{name}.log"
        environment = {
            "QLAB_REDIS_URL": redis_url, "QLAB_PREFIX": prefix, "LEDGER": f"{prefix}:ledger", "NAME": name,
            "LOCK": lock, "CHECK": check, "CONCURRENCY": concurrency,
        }  # fmt: skip
        environment |= {key.upper(): value for key, value in settings.items()}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "qlab", "worker", spec, *arguments],
                cwd=folder, env=os.environ | {key: str(value) for key, value in environment.items()},
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)

    def output(self) -> str:
        return self.log.read_text()
