"""Worker processes that are killed and replaced."""

import json
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from qlab.embedded.lifetime import Tied, spawn
from qlab.testing.kill_test.setting import KillTestError, Setting


class Fleet:
    """`setting.workers` processes; they die with us."""

    def __init__(self, setting: Setting, folder: Path, environment: Mapping[str, str]) -> None:
        options = {
            "concurrency": setting.concurrency, "lock_duration": setting.lock_duration, "work": setting.work,
            "stalled_interval": setting.stalled_interval, "max_stalled_count": setting.kills,
        }  # fmt: skip
        self._environment = {**environment, "KILL_TEST": json.dumps(options)}
        self._folder = folder
        self._started = 0
        self._running = [self._start() for _ in range(setting.workers)]

    def kill_one(self, rng: random.Random) -> None:
        """SIGKILL one of them and start another at once."""
        place = rng.randrange(len(self._running))
        self._running[place].stop()
        self._running[place] = self._start()

    def check(self) -> None:
        """Raises KillTestError when one ended that nobody killed."""
        for worker in self._running:
            if worker.ended:
                logs = sorted(self._folder.glob("worker-*.log"), key=lambda log: log.stat().st_mtime)
                raise KillTestError(f"a worker ended by itself: {logs[-1].read_text()[-500:]}")

    def close(self) -> None:
        """End them all."""
        for worker in self._running:
            worker.stop()

    def _start(self) -> Tied:
        self._started += 1
        return spawn(
            [sys.executable, "-m", "qlab", "worker", "qlab.testing.kill_test.workers:make"],
            stop_signal=signal.SIGKILL,
            account=None,
            folder=Path.cwd(),
            log=self._folder / f"worker-{self._started}.log",
            environment=self._environment,
        )
