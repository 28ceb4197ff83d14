"""One job from this process through a real worker process and back."""

import asyncio
import os
import signal
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from qlab.embedded.lifetime import Tied, spawn
from qlab.job import Job
from qlab.queue import Queue

_LIMIT = 30.0  # seconds; it takes less than one
_GLANCE = 0.25  # seconds between two looks at whether the worker still runs
_WORKER = """\
import os
from qlab import Worker

async def handler(job):
    return {"sum": job.data["a"] + job.data["b"], "pid": os.getpid()}

worker = Worker("doctor", handler)
"""


class FirstJobError(RuntimeError):
    """The job did not come back; the message says why, with the last words of the worker."""


@dataclass(frozen=True)
class FirstJob:
    """How the job went."""

    worker_pid: int
    milliseconds: int
    """From `add` to the result in this process; the start of the worker process is part of it."""


def run(redis_url: str) -> FirstJob:
    """Add a job, run it in a new worker process, wait for its result; nothing is left in Redis.

    Raises `FirstJobError`. It may be called where an event loop runs, such as a notebook.
    """
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(lambda: asyncio.run(_run(redis_url))).result()


async def _run(redis_url: str) -> FirstJob:
    prefix = f"qlab-doctor-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="qlab-doctor-") as name:
        folder = Path(name)
        (folder / "doctor_worker.py").write_text(_WORKER)
        worker = spawn(
            [sys.executable, "-m", "qlab", "worker", "doctor_worker:worker"],
            stop_signal=signal.SIGTERM,
            account=None,
            folder=folder,
            log=folder / "worker.log",
            environment={**os.environ, "QLAB_REDIS_URL": redis_url, "QLAB_PREFIX": prefix},
        )
        try:
            async with Queue("doctor", redis_url, prefix=prefix) as queue:
                began = asyncio.get_running_loop().time()
                job = await queue.add("add", {"a": 20, "b": 22})
                result = await _result(job, worker, folder / "worker.log")
                took = asyncio.get_running_loop().time() - began
        finally:
            worker.stop()
            await _delete_keys(redis_url, prefix)
    if result["sum"] != 42:
        raise FirstJobError(f"the worker says that 20 + 22 is {result['sum']}")
    return FirstJob(result["pid"], round(took * 1000))


async def _result(job: Job, worker: Tied, log: Path) -> dict[str, int]:
    for _ in range(round(_LIMIT / _GLANCE)):
        try:
            result: dict[str, int] = await job.wait_until_finished(timeout=_GLANCE)
        except TimeoutError:
            if worker.ended:
                raise FirstJobError(f"the worker process ended too early: {_tail(log)}") from None
        else:
            return result
    raise FirstJobError(f"no result within {_LIMIT:.0f} s: {_tail(log)}")


def _tail(log: Path) -> str:
    return " ".join(log.read_text(errors="replace").split())[-400:] or "it wrote nothing"


async def _delete_keys(redis_url: str, prefix: str) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(redis_url) as client:
        async for key in client.scan_iter(match=f"{prefix}:*", count=1000):
            await client.delete(key)
