"""What every Python adapter shares. Standard library only: it runs in the peer's own environment.

An adapter module has PACKAGES, enqueue(n, bulk, kind) -> seconds, worker(concurrency), which never returns,
and latency(n) -> milliseconds of each round trip. Its jobs are `noop` and `sleep` (10 ms).
"""

import asyncio
import importlib
import importlib.metadata
import json
import mmap
import os
import struct
import sys
import threading
import time

URL = os.environ.get("BENCH_REDIS_URL", "")
RESULTS = os.environ.get("BENCH_RESULTS") == "1"  # results must be stored: somebody waits for them


class Counter:
    """First start (monotonic seconds) and number of finished jobs, in a file that the runner maps too."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 16)
        self._lock = threading.Lock()
        self._started = False

    def begin(self) -> None:
        """A job starts."""
        if not self._started:
            self._started = True
            struct.pack_into("d", self._map, 0, time.monotonic())

    def hit(self) -> None:
        """A job is done."""
        self.begin()
        with self._lock:
            struct.pack_into("Q", self._map, 8, self.read()[1] + 1)

    def read(self) -> tuple[float, int]:
        """(first start or 0, jobs done)."""
        return struct.unpack_from("dQ", self._map)


class _NoCounter:
    def begin(self) -> None: ...

    def hit(self) -> None: ...


counter = Counter(os.environ["BENCH_COUNTER"]) if "BENCH_COUNTER" in os.environ else _NoCounter()


async def together(n, make, width=50):
    """`make(i)` for i in range(n), `width` at a time: the bulk form of who has none."""
    for first in range(0, n, width):
        await asyncio.gather(*(make(i) for i in range(first, min(n, first + width))))


async def round_trips(n, once, warm=5):
    """The milliseconds of each of n awaited `once(i)`, after a warm-up; at most 8 s."""
    for i in range(warm):
        await once(i)
    end, times = time.monotonic() + 8, []
    for i in range(n):
        begin = time.perf_counter()
        await once(i)
        times.append((time.perf_counter() - begin) * 1000)
        if time.monotonic() > end:
            break
    return times


def main() -> None:
    """support.py ADAPTER versions | setup | enqueue N BULK KIND | worker CONCURRENCY | latency N"""
    name, command, *words = sys.argv[1:]
    adapter = importlib.import_module(name)
    if command == "worker":
        adapter.worker(int(words[0]))
        return
    if command == "setup":
        answer = adapter.setup()
    elif command == "versions":
        answer = {one: importlib.metadata.version(one) for one in adapter.PACKAGES}
    elif command == "enqueue":
        answer = adapter.enqueue(int(words[0]), words[1] == "bulk", words[2])
    else:
        answer = adapter.latency(int(words[0]))
    print("\n@@" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.modules["support"] = sys.modules["__main__"]
    main()
