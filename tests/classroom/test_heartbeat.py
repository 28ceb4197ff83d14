"""What stops an event loop: the table that lesson 07 shows."""

import asyncio
import time
from functools import partial

import pytest

from qlab.classroom.heartbeat import TRIES, WORKS, Gap, Span, longest_gaps, measure, smallest, timed


@pytest.mark.slow  # it measures pauses: the machine must be its own
async def test_a_thread_saves_the_loop_from_python_code_and_not_from_c_code_that_keeps_the_gil():
    gaps = await longest_gaps()
    assert set(gaps) == set(WORKS)
    stopped = {name: [where for where, gap in row.items() if gap.stopped] for name, row in gaps.items()}
    assert stopped == {
        "time.sleep": ["loop"],
        "python loop": ["loop"],
        "json.loads": ["loop", "thread"],
        "regex": ["loop", "thread"],
    }


def test_a_loop_has_stopped_when_its_longest_pause_is_more_than_half_the_work():
    assert Gap(0.3, 0.4).stopped
    assert not Gap(0.1, 0.4).stopped


class Waiting:
    """Work elsewhere, during which the loop lives, except in the first runs: something else stops it then."""

    def __init__(self, disturbed: int) -> None:
        self.disturbed, self.runs = disturbed, 0

    async def __call__(self) -> Span:
        self.runs += 1
        if self.runs <= self.disturbed:
            return timed(partial(time.sleep, 0.05))
        begin = time.perf_counter()
        await asyncio.sleep(0.3)
        return begin, time.perf_counter()


async def test_a_pause_that_does_not_come_again_does_not_count():
    work = Waiting(disturbed=TRIES - 1)
    gap = await smallest(work)
    assert (work.runs, gap.stopped) == (TRIES, False)


async def test_a_pause_that_is_there_each_time_is_real():
    work = Waiting(disturbed=TRIES)
    gap = await smallest(work)
    assert (work.runs, gap.stopped) == (TRIES, True)


async def test_no_gap_is_longer_than_the_whole_work():
    gap = await measure(Waiting(disturbed=1))
    assert gap.longest == gap.took
