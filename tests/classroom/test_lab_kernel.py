"""The lab in a real kernel: its cells, an interrupt, SIGKILL of the kernel, and two labs at the same time."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis as redis_sync
from jupyter_client import BlockingKernelClient, KernelManager

from qlab import Queue
from qlab.classroom.lab import Lab
from tests.embedded.owners import alive, wait_until

OPEN = """
from qlab import Queue
from qlab.classroom.lab import Lab
lab = await Lab.open("97")
queue = Queue("jobs")
"""
WORKER = """%%worker stuck.py
import time
from qlab import Worker
async def handle(job):
    time.sleep(600)
worker = Worker("jobs", handle)
"""
STUCK = """
async with lab.record(queue) as run:
    await queue.add("x")
    a = await lab.start_worker("stuck:worker", "A")
    b = await lab.start_worker("stuck:worker", "B")
    b.pause()
    await run.seen("taken", "A")
    print(a.pid, b.pid, lab.prefix, lab.folder, flush=True)
    await run.seen("completed", within=300)
"""


class Kernel:
    """A kernel of its own, spoken to cell by cell."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def run(self, source: str) -> str:
        """Run a cell to its end; what it printed, or how its error is shown."""
        return self.read(self.client.execute(source), lambda shown: False)

    def read(self, request: str, enough: Callable[[str], bool]) -> str:
        """Read what a cell shows until that is enough or the cell has ended."""
        shown = ""
        while not enough(shown):
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content: dict[str, Any] = message["content"]
            if message["msg_type"] == "stream":
                shown += content["text"]
            elif message["msg_type"] == "error":
                shown += "\n".join(content["traceback"])
            elif content.get("execution_state") == "idle":
                break
        return shown


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    own = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "IPYTHONDIR": str(tmp_path / "ipython")}
    manager = KernelManager(connection_file=str(tmp_path / "kernel.json"))
    manager.start_kernel(env=dict(os.environ) | own | {"PYTHONPATH": os.pathsep.join(sys.path)})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def stuck(kernel: Kernel) -> tuple[str, list[psutil.Process], str, Path]:
    """Start a blocked and a paused worker; the running cell, the processes, the prefix and the folder."""
    assert "Redis" in kernel.run(OPEN)
    assert kernel.run(WORKER).strip() == "{'file': 'stuck.py', 'lines': 5}"
    request = kernel.client.execute(STUCK)
    a, b, prefix, folder = kernel.read(request, lambda shown: shown.endswith("\n")).split()
    return request, [psutil.Process(int(a)), psutil.Process(int(b))], prefix, Path(folder)


def test_sigkill_of_the_kernel_ends_its_workers_and_sweeps_its_keys_database_and_files(
    kernel: Kernel, redis_url: str
) -> None:
    _, workers, prefix, folder = stuck(kernel)
    psutil.Process(kernel.manager.provisioner.pid).kill()
    wait_until(lambda: not alive(workers))
    wait_until(lambda: not folder.exists())
    with redis_sync.Redis.from_url(redis_url) as client:
        wait_until(lambda: not list(client.scan_iter(f"{prefix}:*")))
    with psycopg.connect(os.environ["QLAB_PG_DSN"], autocommit=True) as connection:
        mine = "SELECT count(*) FROM pg_database WHERE datname = %s"
        name = prefix.replace("-", "_")
        wait_until(lambda: connection.execute(mine, [name]).fetchone() == (0,))


def test_an_interrupt_ends_the_workers_and_leaves_the_lab_usable(kernel: Kernel) -> None:
    request, workers, prefix, folder = stuck(kernel)
    assert len(alive(workers)) == 2
    kernel.manager.interrupt_kernel()
    kernel.read(request, lambda shown: False)
    wait_until(lambda: not alive(workers))
    assert folder.exists()
    assert kernel.run("print(lab.prefix)").strip() == prefix
    assert kernel.run('c = await lab.start_worker("stuck:worker", "C")\nprint(c.alive)').strip() == "True"
    kernel.run("await lab.close()")
    assert not folder.exists()


def test_what_goes_wrong_is_shown_as_a_sentence_without_a_traceback(kernel: Kernel) -> None:
    kernel.run("from qlab.classroom import notebook\nnotebook.attach(lambda: None, None)")
    assert kernel.run("%%worker a.py\nx = 1\n").startswith("Ô %%worker cần một phòng thí nghiệm đang mở")
    kernel.run(OPEN)
    shown = kernel.run("%%worker a.py\nx = (\n")
    assert shown.startswith("Tệp a.py có lỗi cú pháp ở dòng 1")
    kernel.run("%%worker a.py\nimport no_such_library\n")
    shown = kernel.run('await lab.start_worker("a:worker", "A")')
    assert shown.startswith("Worker A không lên được")
    assert "lab.py" not in shown
    kernel.run("await lab.close()")


SECOND = """
import asyncio, sys
from qlab import Queue
from qlab.classroom.lab import Lab

async def main():
    async with await Lab.open("97"), Queue("jobs") as queue:
        print(await queue.get_job_counts("waiting"), flush=True)
        await queue.add("theirs")
        sys.stdin.readline()
        print(await queue.get_job_counts("waiting"), flush=True)

asyncio.run(main())
"""


async def test_two_labs_at_once_do_not_see_each_others_jobs(redis_url: str) -> None:
    async with await Lab.open("97") as lab, Queue("jobs") as queue:
        await queue.add("ours")
        environment = {name: value for name, value in os.environ.items() if name != "QLAB_PREFIX"}
        second = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SECOND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert second.stdout is not None
        while not (line := (await second.stdout.readline()).decode()).startswith("{"):
            assert line, "the second lab did not open"
        assert line.strip() == "{'waiting': 0}"
        assert await queue.get_job_counts("waiting") == {"waiting": 1}
        out, _ = await second.communicate(b"\n")
        assert out.decode().strip() == "{'waiting': 1}"
        assert second.returncode == 0
        assert (await queue.get_job_counts("waiting"), lab.folder.exists()) == ({"waiting": 1}, True)
