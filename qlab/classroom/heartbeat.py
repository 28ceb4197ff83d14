"""How long does a piece of work stop an event loop?  A heart that beats every few milliseconds tells.

    gaps = await longest_gaps()
    gaps["json.loads"]["thread"]          # Gap(longest=0.15, took=0.16): the loop stood still

The same work runs on the loop, in a thread or in a process of its own; what counts is the longest part of
the work without a beat, compared with how long the work took.

A machine that is busy or paused for a moment also makes the heart miss beats.  So a work that seems to stop
the loop from elsewhere is tried again: what the work itself does is there each time, a pause is not.
"""

from __future__ import annotations

import asyncio
import itertools
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

TRIES = 3
"""How often a work has to stop the loop from a thread or a process before it is believed."""

Span = tuple[float, float]
"""When a work began and ended, in seconds of the clock that all processes of this machine share."""


class Gap(NamedTuple):
    """The longest part of the work without a beat and the duration of the work, both in seconds."""

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
    for number in range(2_000_000):
        total += number


def _json_loads() -> None:
    json.loads("[" + "1.5," * 250_000 + "0]")


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
                "loop": await measure(partial(_on_loop, work)),
                "thread": await smallest(partial(asyncio.to_thread, timed, work)),
            }
            for name, work in WORKS.items()
        }
        await started  # the process is up before a clock starts
        for name, work in WORKS.items():
            gaps[name]["process"] = await smallest(partial(loop.run_in_executor, pool, timed, work))
    return gaps


async def _on_loop(work: Callable[[], None]) -> Span:
    return timed(work)


def timed(work: Callable[[], None]) -> Span:
    """Do the work and say when it began and ended."""
    begin = time.perf_counter()
    work()
    return begin, time.perf_counter()


async def smallest(run: Callable[[], Awaitable[Span]]) -> Gap:
    """Measure up to TRIES times, until the loop is seen to live; the gap that is the smallest part."""
    tried: list[Gap] = []
    while len(tried) < TRIES and all(gap.stopped for gap in tried):
        tried.append(await measure(run))
    return min(tried, key=lambda gap: gap.longest / gap.took)


async def measure(run: Callable[[], Awaitable[Span]]) -> Gap:
    """Let the heart beat while ``run`` does its work, which has to last for some time."""
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.perf_counter())
            await asyncio.sleep(BEAT)

    heart = asyncio.create_task(beat())
    await asyncio.sleep(2 * BEAT)
    begin, end = await run()
    heart.cancel()
    signs = [begin, *(at for at in beats if begin < at < end), end]
    return Gap(max(b - a for a, b in itertools.pairwise(signs)), end - begin)
