"""The orders service as processes of their own, ended whatever happens."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parents[2]
LIMIT = 20.0  # seconds; a start takes one or two


class Service:
    """``python -m examples.orders`` with the words given, on any free port."""

    def __init__(self, log: Path, *words: str, **environment: str) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.orders", *words],
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def until_said(self, pattern: str) -> re.Match[str]:
        """Wait until the log has this."""
        end = time.monotonic() + LIMIT
        while (found := re.search(pattern, self.said)) is None:
            assert time.monotonic() < end, f"not said within {LIMIT} s: {pattern}\n{self.said}"
            assert self.process.poll() is None, f"the service has ended:\n{self.said}"
            time.sleep(0.02)
        return found

    def client(self) -> httpx.AsyncClient:
        """A client that waits three seconds at most: what hangs longer fails the test."""
        address = self.until_said(r"running on (http://[\d.:]+)").group(1)
        return httpx.AsyncClient(base_url=address, timeout=3.0, trust_env=False)

    def parts(self) -> list[psutil.Process]:
        """Its processes, the first one included."""
        first = psutil.Process(self.process.pid)
        return [first, *first.children(recursive=True)]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            for part in self.parts():
                part.kill()
            self.process.wait(LIMIT)


def all_gone(parts: list[psutil.Process]) -> bool:
    """Whether these processes end within the limit."""
    _, alive = psutil.wait_procs(parts, timeout=LIMIT)
    return not alive
