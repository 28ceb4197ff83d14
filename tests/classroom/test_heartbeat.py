"""What stops an event loop: the table that lesson 07 shows."""

import pytest

from qlab.classroom.heartbeat import WORKS, Gap, longest_gaps


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
