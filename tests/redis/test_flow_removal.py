"""What becomes of a flow when jobs of it are removed or run again."""

import pytest

from qlab import JobGone, JobStateError
from tests.redis.flow_state import child, parent
from tests.redis.queue_state import read_events


def three_levels():
    inner = parent(child(2), child(3), job_id="m", queue="middle")
    return parent(child(1), inner, job_id="top")


TREE = ["report:top", "middle:m", "thumb:c1", "thumb:c2", "thumb:c3"]


async def test_removing_a_parent_removes_all_below_it(bench, redis):
    node = await bench.flows.add(three_levels())
    await bench.run("thumb:c1")
    await bench.fail("thumb:c2")  # in another state each: completed, failed, waiting, and parents that failed
    assert await bench.states(*TREE) == dict(
        zip(TREE, ["failed", "failed", "completed", "failed", "waiting"], strict=True)
    )
    await node.job.remove()
    assert set((await bench.states(*TREE)).values()) == {"gone"}
    assert await bench.redis.keys(f"{bench.prefix}:*children:*") == []
    removed = [one["job"] for one in await read_events(redis, bench.queue("thumb").keys, "removed")]
    assert sorted(removed) == ["c1", "c2", "c3"]
    with pytest.raises(JobGone):
        await node.job.remove()


async def test_removing_a_parent_that_has_run_removes_its_children_too(bench):
    node = await bench.flows.add(parent(child(1)))
    await bench.run("thumb:c1")
    await bench.run("report:p")
    await node.job.remove()
    assert await bench.state("thumb:c1") == "gone"


async def test_h13_nothing_is_removed_while_one_of_the_tree_is_active(bench):
    node = await bench.flows.add(three_levels())
    await bench.take("thumb")
    await bench.take("thumb")
    assert (await bench.state("thumb:c1"), await bench.state("thumb:c2")) == ("active", "active")
    await bench.run("thumb:c1")
    with pytest.raises(JobStateError, match="job top has the child thumb:c2, which is active: nothing was"):
        await node.job.remove()
    with pytest.raises(JobStateError, match="job c2 is active: a job that a worker holds"):
        await (await bench.job("thumb:c2")).remove()
    assert "gone" not in (await bench.states(*TREE)).values()
    await bench.run("thumb:c2")
    await node.job.remove()
    assert set((await bench.states(*TREE)).values()) == {"gone"}


async def test_removing_an_inner_parent_releases_the_one_above(bench):
    await bench.flows.add(three_levels())
    await bench.run("thumb:c1")
    await (await bench.job("middle:m")).remove()
    assert await bench.states(*TREE) == dict(
        zip(TREE, ["waiting", "gone", "completed", "gone", "gone"], strict=True)
    )


async def test_a_job_that_took_the_name_of_a_trimmed_child_is_not_removed_with_the_parent(bench):
    node = await bench.flows.add(parent(child(1), child(2)))
    await bench.run("thumb:c1", keep=":0")
    await bench.queue("thumb").add("somebody else's", job_id="c1")
    await node.job.remove()
    assert await bench.states("thumb:c1", "thumb:c2") == {"thumb:c1": "waiting", "thumb:c2": "gone"}


async def test_a_child_that_took_the_id_of_a_removed_one_belongs_to_its_own_parent(bench):
    await bench.flows.add(parent(child(1), child(2), job_id="old"))
    await (await bench.job("thumb:c1")).remove()
    await bench.flows.add(parent(child(1), job_id="new"))
    await bench.run("thumb:c2")
    await bench.run("thumb:c1")
    assert await bench.states("report:old", "report:new") == {
        "report:old": "waiting",
        "report:new": "waiting",
    }
    assert list(await (await bench.job("report:old")).get_children_values()) == ["thumb:c2"]


@pytest.mark.parametrize("end", ["clean", "drain", "obliterate"])
async def test_children_of_a_parent_whose_queue_is_emptied_run_on_alone(bench, end):
    await bench.flows.add(parent(child(1), child(2)))
    await bench.take("thumb")
    queue = bench.queue("report")
    await (queue.clean("waiting-children") if end == "clean" else getattr(queue, end)())
    assert await bench.state("report:p") == "gone"
    await bench.run("thumb:c1")
    await bench.fail("thumb:c2")
    await (await bench.job("thumb:c2")).retry()
    await bench.run("thumb:c2")
    assert await bench.redis.keys(f"{bench.prefix}:*:pending:*") == []


@pytest.mark.parametrize("end", ["drain", "obliterate"])
async def test_a_flow_within_one_queue_leaves_nothing_to_run_when_that_is_emptied(bench, end):
    inner = parent(child(1, "q"), child(2, "q", delay=60), job_id="m", queue="q")
    await bench.flows.add(parent(inner, child(3, "q"), queue="q"))
    queue = bench.queue("q")
    await (queue.drain(delayed=True) if end == "drain" else queue.obliterate())
    assert sum((await queue.get_job_counts()).values()) == 0
    assert await bench.redis.keys(f"{bench.prefix}:*job:*") == []


async def test_a_new_parent_with_the_old_ones_id_hears_nothing_of_the_old_children(bench):
    await bench.flows.add(parent(child(1)))
    await bench.take("thumb")
    await bench.queue("report").drain()
    node = await bench.flows.add(parent(child(2)))
    await bench.run("thumb:c1")
    assert (await node.job.refresh()).state == "waiting-children"
    assert await node.job.get_children_values() == {}
    await bench.run("thumb:c2")
    assert (await node.job.refresh()).state == "waiting"


@pytest.mark.parametrize("policy", ["fail_parent", "ignore_dependency", "wait"])
async def test_h13_an_old_child_that_is_run_again_does_not_join_a_new_parent_with_the_old_id(bench, policy):
    await bench.flows.add(parent(child(1, on_failure=policy), child(2)))
    await bench.fail("thumb:c1")
    await bench.queue("report").clean("failed" if policy == "fail_parent" else "waiting-children")
    node = await bench.flows.add(parent(child(3)))
    await (await bench.job("thumb:c1")).retry()
    assert await node.job.get_pending_children() == ["thumb:c3"]
    await bench.run("thumb:c3")
    assert (await node.job.refresh()).state == "waiting"


async def test_a_parent_that_is_trimmed_takes_its_notes_with_it(bench):
    await bench.flows.add(parent(child(1)))
    await bench.run("thumb:c1")
    await bench.run("report:p", keep=":0")
    assert await bench.redis.keys(f"{bench.prefix}:*report*children:*") == []
    assert await bench.state("thumb:c1") == "completed"


async def test_h13_a_failed_child_that_runs_again_brings_its_parents_back(bench):
    node = await bench.flows.add(three_levels())
    await bench.run("thumb:c1")
    await bench.fail("thumb:c2")
    assert (await node.job.refresh()).state == "failed"
    await (await bench.job("thumb:c2")).retry()
    assert await bench.states("middle:m", "report:top") == {
        "middle:m": "waiting-children", "report:top": "waiting-children"
    }  # fmt: skip
    assert (await node.job.refresh()).failed_reason is None
    for name in ("thumb:c2", "thumb:c3", "middle:m", "report:top"):
        await bench.run(name)
    assert await node.job.get_children_failures() == {}


async def test_h13_a_parent_comes_back_once_none_of_its_children_is_failed_any_more(bench):
    node = await bench.flows.add(parent(child(1), child(2)))
    await bench.fail("thumb:c1")
    await bench.fail("thumb:c2")
    await (await bench.job("thumb:c1")).retry()
    assert (await node.job.refresh()).state == "failed"
    await (await bench.job("thumb:c2")).retry()
    assert (await node.job.refresh()).state == "waiting-children"
    await bench.fail("thumb:c1")
    assert (await node.job.refresh()).state == "failed"


async def test_h13_a_parent_cannot_be_run_without_the_child_that_failed_it(bench):
    job = (await bench.flows.add(parent(child(1), child(2)))).job
    await bench.fail("thumb:c1")
    with pytest.raises(JobStateError, match="job p failed because of its child thumb:c1: retry that"):
        await job.retry()
    await (await bench.job("thumb:c1")).remove()
    await job.retry()
    assert (await job.refresh()).state == "waiting-children"
    await bench.run("thumb:c2")
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {"thumb:c2": "done"}


async def test_an_ignored_child_that_runs_again_in_time_is_waited_for_again(bench):
    """Its parent still waits for others; it gets the result instead of the failure."""
    job = (await bench.flows.add(parent(child(1, on_failure="ignore_dependency"), child(2)))).job
    await bench.fail("thumb:c1")
    await (await bench.job("thumb:c1")).retry()
    await bench.run("thumb:c2")
    assert (await job.refresh()).state == "waiting-children"
    await bench.run("thumb:c1")
    assert (await job.get_children_values(), await job.get_children_failures()) == (
        {"thumb:c1": "done", "thumb:c2": "done"}, {},
    )  # fmt: skip


async def test_a_dependency_that_was_removed_stays_removed(bench):
    job = (await bench.flows.add(parent(child(1, on_failure="remove_dependency"), child(2)))).job
    await bench.fail("thumb:c1")
    await (await bench.job("thumb:c1")).retry()
    assert await job.get_pending_children() == ["thumb:c2"]
    await bench.run("thumb:c2")
    assert (await job.refresh()).state == "waiting"
    await job.remove()
    assert await bench.state("thumb:c1") == "waiting"


async def test_a_result_stays_though_its_child_runs_again_and_fails_and_is_run_again(bench):
    job = (await bench.flows.add(parent(child(1), child(2)))).job
    await bench.run("thumb:c1")
    await (await bench.job("thumb:c1")).retry("completed")
    await bench.fail("thumb:c1")
    await (await bench.job("thumb:c1")).retry()
    assert await job.get_pending_children() == ["thumb:c2"]
    assert await job.get_children_values() == {"thumb:c1": "done"}
    await bench.fail("thumb:c1")
    await bench.run("thumb:c2")
    assert (await job.refresh()).state == "waiting"


@pytest.mark.parametrize("again", ["retry", "completed"])
async def test_a_released_parent_that_runs_again_waits_for_nobody(bench, again):
    job = (await bench.flows.add(parent(child(1, on_failure="ignore_dependency")))).job
    await bench.fail("thumb:c1")
    await (bench.fail("report:p") if again == "retry" else bench.run("report:p"))
    await (await bench.job("thumb:c1")).retry()  # too late for the parent
    await job.refresh()
    await (job.retry() if again == "retry" else job.retry("completed"))
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_failures() == {"thumb:c1": "RuntimeError: no"}


async def test_a_parent_that_failed_by_itself_fails_its_own_parent_and_brings_it_back(bench):
    node = await bench.flows.add(three_levels())
    for name in ("thumb:c1", "thumb:c2", "thumb:c3"):
        await bench.run(name)
    await bench.fail("middle:m")
    assert (await node.job.refresh()).failed_reason == "child middle:m failed: RuntimeError: no"
    await (await bench.job("middle:m")).retry()
    assert (await node.job.refresh()).state == "waiting-children"
    await bench.run("middle:m")
    assert (await node.job.refresh()).state == "waiting"


@pytest.mark.parametrize("verb", ["promote", "change_delay"])
async def test_a_parent_that_waits_for_children_cannot_be_moved_in_time(bench, verb):
    job = (await bench.flows.add(parent(child(1)))).job
    with pytest.raises(JobStateError, match="is waiting-children: only a delayed job"):
        await (job.promote() if verb == "promote" else job.change_delay(1))
