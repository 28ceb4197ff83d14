"""What a process and its children use, and how to end them (Linux)."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path


def tree(pid: int) -> list[int]:
    """The process and its living descendants."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                todo += map(int, children.read_text().split())
    return found


def peak_rss(pids: list[int]) -> float:
    """The sum of the peak resident sizes in MiB."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    total += int(line.split()[1])
    return total / 1024


def cpu_seconds(pids: list[int]) -> float:
    """CPU time of these processes so far."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, then SIGKILL for the process and every descendant."""
    pids = tree(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if process.poll() is None or pid != process.pid:
                os.kill(pid, signal.SIGKILL)
    process.wait(10)
    time.sleep(0.05)  # let the server notice that they are gone
