"""Owners of servers in processes of their own, and waiting for what they leave."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

OWNER = Path(__file__).with_name("owner.py")


class Owner:
    """A process that owns embedded servers."""

    def __init__(self, *arguments: str, environment: dict[str, str], **options) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(OWNER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            **options,
        )

    def about(self) -> dict:
        """What it started; waits until it has."""
        return json.loads(self.process.stdout.readline())

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> str:
        output, _ = self.process.communicate("\n", timeout=60)
        return output


def wait_until(condition: Callable[[], object], limit: float = 20.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"still waiting after {limit} s"
        time.sleep(0.02)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; who waits to be reaped does not."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and process.is_running():
                found.append(process)
    return found
