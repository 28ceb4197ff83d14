"""How long does a piece of work stop an event loop?  A heart that beats every few milliseconds tells.

    gaps = await longest_gaps()
    gaps["json.loads"]["thread"]          # Gap(longest=0.15, took=0.16): the loop stood still

The same work runs on the loop, in a thread or in a process of its own; what counts is the longest pause
between two beats, compared with how long the work took.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

BEAT = 0.005
"""Seconds between two beats of a loop that has nothing else to do."""


class Gap(NamedTuple):
    """The longest pause between two beats and the duration of the work, both in seconds."""

    longest: float
    took: float

    @property
    def stopped(self) -> bool:
        """Whether the loop stood still for most of the time."""
        return self.longest > self.took / 2


def _nothing() -> None:
    """The first call of a new process: it imports this module."""


def _sleep() -> None:
    time.sleep(0.2)


def _python_loop() -> None:
    total = 0
    for number in range(1_500_000):
        total += number


def _json_loads() -> None:
    json.loads("[" + "[1.5]," * 120_000 + "0]")


def _regex() -> None:
    re.match("(a+)+$", "a" * 21 + "b")  # it tries each way to split the letters: 2**21 of them


WORKS: dict[str, Callable[[], None]] = {
    "time.sleep": _sleep,
    "python loop": _python_loop,
    "json.loads": _json_loads,
    "regex": _regex,
}
"""Work of a fifth of a second or so: one that lets go of the GIL, one that shares it, two that keep it."""


async def longest_gaps() -> dict[str, dict[str, Gap]]:
    """Run each of WORKS on the "loop", in a "thread" and in a "process" while this loop's heart beats."""
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        started = loop.run_in_executor(pool, _nothing)
        gaps = {
            name: {
                "loop": await _measure(partial(_on_loop, work)),
                "thread": await _measure(partial(asyncio.to_thread, work)),
            }
            for name, work in WORKS.items()
        }
        await started  # the process is up before a clock starts
        for name, work in WORKS.items():
            gaps[name]["process"] = await _measure(partial(loop.run_in_executor, pool, work))
    return gaps


async def _on_loop(work: Callable[[], None]) -> None:
    work()


async def _measure(run: Callable[[], Awaitable[None]]) -> Gap:
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    heart = asyncio.create_task(beat())
    await asyncio.sleep(2 * BEAT)
    begin = time.perf_counter()
    await run()
    took = time.perf_counter() - begin
    await asyncio.sleep(2 * BEAT)
    heart.cancel()
    return Gap(longest, took)
