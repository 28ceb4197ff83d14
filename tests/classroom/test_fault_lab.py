"""The fault lab of a notebook: one for all cells, opened when asked for, closed with the process."""

import subprocess
import sys

import psutil

CELLS = """
import asyncio
from qlab.classroom.fault_lab import fault_lab
from qlab.testing import Actor, explore

async def charge(world):
    await world.provider.charge("o1", 100)

async def charged(stores):
    return ("lost", "once", "twice")[min(len(stores.provider.charges), 2)]

async def cells():
    first, again = await fault_lab(), await fault_lab()
    report = await explore(again, [Actor("A", charge)], charged)
    print(first is again, report.verdict, first.folder)

asyncio.run(cells())
"""


def test_all_cells_share_one_lab_and_nothing_of_it_is_left_at_the_end():
    ended = subprocess.run(
        [sys.executable, "-c", CELLS], capture_output=True, text=True, check=True, timeout=60
    )
    same, verdict, seed, folder = ended.stdout.split()
    assert (same, verdict, seed) == ("True", "twice:", "A0>")
    left = [
        p.info["pid"] for p in psutil.process_iter(["pid", "cmdline"]) if folder in str(p.info["cmdline"])
    ]
    assert left == []
