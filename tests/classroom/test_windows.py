"""Starts counted by window, and what the lesson on limits and flows asks."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from qlab import FlowProducer, Queue, Worker
from qlab.classroom import windows
from qlab.classroom.families import ended, kinds_of_keys
from qlab.classroom.lab import Lab
from qlab.classroom.processes import LabError

EDGE = [(5.0, "A"), (6.2, "A"), (6.21, "B"), (7.0, "A"), (7.0, "B"), (7.01, "B")]


def test_fixed_windows_begin_with_a_start_and_other_stretches_may_hold_more() -> None:
    assert windows.counts(EDGE, 2.0) == [3, 3]
    assert windows.busiest(EDGE, 2.0) == 5
    assert windows.counts([], 1.0) == []
    assert windows.busiest([], 1.0) == 0
    assert windows.counts([(0.0, "A"), (0.9996, "A")], 1.0) == [1, 1]  # to the millisecond


def test_the_picture_counts_from_the_first_start_and_says_its_windows() -> None:
    said = windows.picture("Sát mép", EDGE, 2.0).sentences()
    assert said == [
        "cửa sổ: từ 0 tới 2 giây, 3 job.",
        "cửa sổ: từ 2 tới 4 giây, 3 job.",
        "một khoảng khác: từ 1,2 tới 3,2 giây, 5 job.",
        "worker A: bắt đầu ở giây thứ 0; 1,2; 2.",
        "worker B: bắt đầu ở giây thứ 1,21; 2 ×2.",
    ]
    assert "một khoảng khác" not in " ".join(windows.picture("x", EDGE[:3], 2.0).sentences())


@pytest.fixture
async def lab(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Lab]:
    async with await Lab.open("98", postgres=False) as lab:
        yield lab


async def _ok(_job: object) -> str:
    return "ok"


async def test_a_parent_that_waits_for_ever_counts_as_ended_once_its_children_have(lab: Lab) -> None:
    async def broken(job: object) -> None:
        raise RuntimeError("broken")

    child = {"name": "c", "queue": "child", "on_failure": "wait"}
    async with FlowProducer() as flows:
        tree = await flows.add({"name": "p", "queue": "parent", "children": [child]})
        with pytest.raises(LabError, match="waiting-children"):
            await ended(tree, within=0.1)
        async with Worker("child", broken), Worker("parent", _ok):
            assert await ended(tree) == "waiting-children"
            await (await tree.children[0].job.refresh()).remove()
            assert await ended_alone(tree.job) == "completed"
    assert {"job", "waiting-children", "pending"} & set(await kinds_of_keys(lab, "parent")) >= {"job"}


async def test_the_kinds_of_keys_are_the_same_whether_a_worker_has_heard_the_bell_or_not(lab: Lab) -> None:
    async with Queue("bell") as queue:
        await queue.add("x", delay=3600)
        await lab.redis.delete(queue.keys["wake"])
        silent = await kinds_of_keys(lab, "bell")
        await lab.redis.rpush(queue.keys["wake"], "1")
        assert await kinds_of_keys(lab, "bell") == silent
        assert {"delayed", "events", "job"} <= set(silent)


async def ended_alone(job: object) -> str:
    async with asyncio.timeout(20):
        while (await job.refresh()).state != "completed":  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
    return "completed"


async def test_a_recording_tells_who_started_when(lab: Lab) -> None:
    async with Queue("q") as queue, lab.record(queue) as run, Worker("q", _ok, name="A"):
        await queue.add_bulk([("x", n) for n in range(2)])
        await run.seen("completed", times=2)
    (first, lane), (second, _) = run.starts()
    assert lane == "A"
    assert first <= second


async def test_a_schedule_goes_on_after_a_run_that_failed(lab: Lab) -> None:
    """What the chain of delayed jobs of lesson 08 cannot do."""
    runs = []

    async def handle(job: object) -> None:
        runs.append(job)
        if len(runs) == 1:
            raise RuntimeError("once")

    async with Queue("q") as queue, Worker("q", handle):
        await queue.upsert_job_scheduler("nightly", "clean-up", every=0.05)
        async with asyncio.timeout(20):
            while len(runs) < 3:
                await asyncio.sleep(0.01)
        assert (await queue.get_job_counts("failed")) == {"failed": 1}
    assert os.environ["QLAB_PREFIX"] == lab.prefix
