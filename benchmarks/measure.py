"""The workloads, each on a flushed server; a run whose counts do not add up is an error, not a figure."""

import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import redis

from benchmarks.adapters.support import Counter
from benchmarks.peers import Peer, PeerError
from benchmarks.processes import cpu_seconds, peak_rss, stop, tree
from qlab.embedded import start

LIMIT = 120.0


class Runner:
    """The environment of the adapters, and how to run a worker in it."""

    def __init__(self) -> None:
        root = str(Path(__file__).parents[1])
        self.env = os.environ | {
            "PYTHONPATH": os.pathsep.join([root, str(Path(__file__).parent / "adapters")]),
            "PYTHONWARNINGS": "ignore",
        }
        for name in ("QLAB_REDIS_URL", "QLAB_PREFIX"):
            self.env.pop(name, None)

    @contextmanager
    def worker(self, peer: Peer, concurrency: int, **extra: str) -> Iterator[tuple[int, Counter]]:
        """A running worker of the peer: its pid and the counter of its jobs."""
        with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as log:
            file.write(bytes(16))
            file.flush()
            env = self.env | {"BENCH_COUNTER": file.name, "BENCH_CONCURRENCY": str(concurrency)} | extra
            process = subprocess.Popen(
                peer.command("worker", concurrency), env=env, cwd=peer.cwd, stdout=log, stderr=log
            )
            try:
                yield process.pid, Counter(file.name)
                if process.poll() is not None:
                    log.seek(0)
                    raise PeerError(f"the worker ended: {log.read().decode()[-300:]}")
            finally:
                stop(process)

    def _wait(self, condition: Any) -> Any:
        limit = time.monotonic() + LIMIT
        while not (value := condition()):
            self._check(time.monotonic() < limit, f"not done after {LIMIT:.0f} s")
            time.sleep(0.002)
        return value

    @staticmethod
    def _check(fine: bool, words: str) -> None:
        if not fine:
            raise PeerError(words)


class Bench(Runner):
    """One Valkey for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._servers = start(postgres=False, redis="valkey")
        self.redis = redis.Redis.from_url(self._servers.redis_url)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.redis.config_set("bind", "127.0.0.1")
        self.redis.config_set("port", port)  # TCP for all: not every peer knows Unix sockets
        password = quote(urlsplit(self._servers.redis_url).password or "")
        self.env["BENCH_REDIS_URL"] = f"redis://:{password}@127.0.0.1:{port}/0"
        self.server_pid = int(self.redis.info("server")["process_id"])

    def close(self) -> None:
        """Stop the server."""
        self.redis.close()
        self._servers.close()

    def left(self, peer: Peer) -> int:
        """Jobs that the store holds and that are not completed."""
        total = 0
        for command in peer.left:
            if command[0] == "XGROUPS":
                groups = self.redis.xinfo_groups(command[1]) if self.redis.exists(command[1]) else []
                total += sum((group["lag"] or 0) + group["pending"] for group in groups)
            else:
                total += int(self.redis.execute_command(*command) or 0)
        return total

    def enqueue(self, peer: Peer, n: int) -> dict[str, Any]:
        """n jobs one by one, each awaited."""
        self.redis.flushall()
        seconds = peer.call("enqueue", n, "one", "noop", env=self.env)
        self._check(self.left(peer) == n, f"{self.left(peer)} jobs in the store after {n} adds")
        return {"n": n, "per_s": n / seconds}

    def drain(self, peer: Peer, n: int, concurrency: int = 20, kind: str = "noop") -> dict[str, Any]:
        """n waiting jobs, one worker: from the first start until the store has none left."""
        self.redis.flushall()
        bulk = peer.call("enqueue", n, "bulk", kind, env=self.env)
        self._check(self.left(peer) == n, f"{self.left(peer)} jobs in the store after {n} adds")
        with self.worker(peer, concurrency) as (pid, counter):
            first = self._wait(lambda: counter.read()[0])
            pids = tree(pid)
            cpu, server = cpu_seconds(pids), cpu_seconds([self.server_pid])
            self._wait(lambda: counter.read()[1] >= n and self.left(peer) == 0)
            seconds = time.monotonic() - first
            cpu, server = cpu_seconds(pids) - cpu, cpu_seconds([self.server_pid]) - server
            self._check(counter.read()[1] == n, f"{counter.read()[1]} runs of {n} jobs")
            rss = peak_rss(tree(pid))
        return {
            "n": n, "per_s": n / seconds, "seconds": seconds, "bulk_per_s": n / bulk, "rss_mib": rss,
            "cpu_us": cpu / n * 1e6, "server_cpu_us": server / n * 1e6,
        }  # fmt: skip

    def latency(self, peer: Peer, n: int) -> dict[str, Any]:
        """An idle worker; add a job and wait for its result, n times."""
        self.redis.flushall()
        with self.worker(peer, 20, BENCH_RESULTS="1"):
            times = sorted(peer.call("latency", n, env=self.env | {"BENCH_RESULTS": "1"}))
        return {"n": len(times), "p50": statistics.median(times), "p99": times[int(len(times) * 0.99)]}

    def idle(self, peer: Peer, seconds: float) -> dict[str, Any]:
        """Commands a second that the server gets from one worker with nothing to do."""
        self.redis.flushall()
        with self.worker(peer, 20):
            time.sleep(3)  # past the start
            before = self._commands()
            time.sleep(seconds)
            commands = self._commands() - before - 1  # our own INFO
        return {"seconds": seconds, "commands_per_s": commands / seconds}

    def _commands(self) -> int:
        """What clients have sent: a script counts once, whatever it calls."""
        return int(self.redis.info("stats")["total_reads_processed"])
