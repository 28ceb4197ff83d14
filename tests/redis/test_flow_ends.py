"""H13: every way in which a child can end reaches its parent, and the policy decides what that means.

The child in question is c2, alone in the queue `risky`; c1 and c3 are in `thumb`.
"""

import pytest

from qlab import Keep, UnrecoverableError, Worker
from tests.redis.flow_state import POLICIES, child, parent
from tests.redis.queue_state import read_events, until

C2 = "risky:c2"


async def three_children(bench, policy, **options):
    c2 = child(2, "risky", on_failure=policy, **options)
    return (await bench.flows.add(parent(child(1), c2, child(3)))).job


async def exhausted(bench):
    await bench.run(C2, "retrying", "RuntimeError: first", "0")
    await bench.fail(C2)
    return "RuntimeError: no"


async def unrecoverable(bench):
    async def handler(job):
        raise UnrecoverableError("another attempt makes no sense")

    async def ended():
        return await bench.state(C2) == "failed"

    async with Worker("risky", handler, bench.url, prefix=bench.prefix):
        await until(ended)
    return "UnrecoverableError: another attempt makes no sense"


async def stalled(bench):
    queue = bench.queue("risky")
    await bench.take("risky")
    await bench.redis.zadd(queue.keys["active"], {"c2": 1})  # its lease ran out long ago
    assert await queue.connection.call("recover", max_stalled=0) == [["c2", 1]]
    return "job stalled more than allowable limit"


FAILURES = [exhausted, unrecoverable, stalled]


@pytest.mark.parametrize("end", FAILURES)
async def test_h13_fail_parent_fails_the_parent_at_once_and_names_the_child(bench, redis, end):
    job = await three_children(bench, "fail_parent", attempts=2)
    reason = await end(bench)
    await job.refresh()
    assert (job.state, job.failed_reason) == ("failed", f"child risky:c2 failed: {reason}")
    assert (job.claim, job.finished_at is not None) == (0, True)
    assert await job.get_pending_children() == ["risky:c2", "thumb:c1", "thumb:c3"]
    assert await job.get_children_failures() == {"risky:c2": reason}
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    assert (await job.refresh()).state == "failed"
    assert len(await read_events(redis, bench.queue("report").keys, "failed", "waiting")) == 1


async def test_h13_fail_parent_is_the_default(bench):
    job = await three_children(bench, None)
    await bench.fail(C2)
    assert (await job.refresh()).failed_reason == "child risky:c2 failed: RuntimeError: no"


async def test_the_default_of_a_flow_can_be_another(bench):
    node = await bench.flows.add(parent(child(1), child(2, "risky")), on_child_failure="ignore_dependency")
    await bench.fail(C2)
    await bench.run("thumb:c1")
    assert (await node.job.refresh()).state == "waiting"


@pytest.mark.parametrize("end", FAILURES)
@pytest.mark.parametrize("last", ["c2", "c3"])
async def test_h13_ignore_dependency_runs_the_parent_with_two_results_and_one_failure(
    bench, redis, end, last
):
    job = await three_children(bench, "ignore_dependency", attempts=2)
    await bench.run("thumb:c1")
    if last == "c2":
        await bench.run("thumb:c3")
    reason = await end(bench)
    if last == "c3":
        assert (await job.refresh()).state == "waiting-children"
        await bench.run("thumb:c3")
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {"thumb:c1": "done", "thumb:c3": "done"}
    assert await job.get_children_failures() == {C2: reason}
    assert await job.get_pending_children() == []
    assert len(await read_events(redis, bench.queue("report").keys, "waiting")) == 1


async def test_h13_remove_dependency_runs_the_parent_as_if_the_child_had_never_been(bench):
    job = await three_children(bench, "remove_dependency")
    await bench.fail(C2)
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {"thumb:c1": "done", "thumb:c3": "done"}
    assert await job.get_children_failures() == {}
    await (await bench.job(C2)).retry()
    await bench.run(C2)
    assert C2 not in await job.get_children_values()


async def test_h13_continue_parent_runs_the_parent_now(bench, redis):
    job = await three_children(bench, "continue_parent")
    await bench.run("thumb:c1")
    await bench.fail(C2)
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {"thumb:c1": "done"}
    assert await job.get_children_failures() == {C2: "RuntimeError: no"}
    assert await job.get_pending_children() == ["thumb:c3"]
    await bench.run("report:p")
    await bench.run("thumb:c3")
    assert (await job.refresh()).state == "completed"
    assert await job.get_children_values() == {"thumb:c1": "done", "thumb:c3": "done"}
    assert len(await read_events(redis, bench.queue("report").keys, "waiting")) == 1


async def test_a_released_parent_is_not_failed_by_a_child_that_is_late(bench):
    tree = parent(child(1, on_failure="continue_parent"), child(2, "risky", on_failure="fail_parent"))
    job = (await bench.flows.add(tree)).job
    await bench.fail("thumb:c1")
    await bench.fail(C2)
    assert (await job.refresh()).state == "waiting"
    assert sorted(await job.get_children_failures()) == [C2, "thumb:c1"]
    await bench.fail("report:p")
    await job.refresh()
    await job.retry()
    assert (await job.refresh()).state == "waiting"


@pytest.mark.parametrize("end", FAILURES)
async def test_h13_wait_leaves_the_parent_waiting_and_says_for_whom(bench, end):
    """What the library of the chapter does by default."""
    job = await three_children(bench, "wait", attempts=2)
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    reason = await end(bench)
    assert (await job.refresh()).state == "waiting-children"
    assert await job.get_pending_children() == [C2]
    assert await job.get_children_failures() == {C2: reason}
    await (await bench.job(C2)).retry()
    assert await job.get_children_failures() == {}
    await bench.run(C2)
    assert (await job.refresh()).state == "waiting"
    assert len(await job.get_children_values()) == 3


@pytest.mark.parametrize("policy", POLICIES)
async def test_h13_a_child_that_is_removed_when_it_fails(bench, policy):
    job = await three_children(bench, policy, remove_on_fail=True)
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    await bench.fail(C2, keep=Keep(count=0).encode())
    assert await bench.state(C2) == "gone"
    await job.refresh()
    assert job.state == ("failed" if policy == "fail_parent" else "waiting")
    if policy == "fail_parent":
        assert "risky:c2" in job.failed_reason
        await job.retry()  # nobody can run the child again, so the parent may go without it
        assert (await job.refresh()).state == "waiting"
    noted = policy in ("ignore_dependency", "continue_parent")
    assert (C2 in await job.get_children_failures()) == noted


async def test_h13_results_outlive_children_that_are_removed_when_they_complete(bench):
    job = await three_children(bench, None, remove_on_complete=True)
    for name in (C2, "thumb:c1", "thumb:c3"):
        await bench.run(name, text=f'"{name}"', keep=Keep(count=0).encode())
        assert await bench.state(name) == "gone"
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {name: name for name in (C2, "thumb:c1", "thumb:c3")}


async def remove(bench):
    await (await bench.job(C2)).remove()


async def clean(bench):
    assert await bench.queue("risky").clean(await bench.state(C2)) == ["c2"]


async def drain(bench):
    assert await bench.queue("risky").drain(delayed=True) == 1


async def obliterate(bench):
    await bench.queue("risky").obliterate()


@pytest.mark.parametrize("end", [remove, clean, drain, obliterate])
@pytest.mark.parametrize("state", ["waiting", "delayed", "prioritized"])
@pytest.mark.parametrize("last", ["c2", "c3"])
async def test_h13_a_child_that_is_removed_is_no_longer_waited_for(bench, end, state, last):
    options = {"waiting": {}, "delayed": {"delay": 60}, "prioritized": {"priority": 3}}[state]
    job = await three_children(bench, None, **options)
    assert await bench.state(C2) == state
    await bench.run("thumb:c1")
    if last == "c2":
        await bench.run("thumb:c3")
    await end(bench)
    if last == "c3":
        assert (await job.refresh()).state == "waiting-children"
        await bench.run("thumb:c3")
    assert (await job.refresh()).state == "waiting"
    assert await job.get_children_values() == {"thumb:c1": "done", "thumb:c3": "done"}
    assert await job.get_children_failures() == {}


@pytest.mark.parametrize("end", [remove, clean, obliterate])
@pytest.mark.parametrize("policy", POLICIES)
async def test_h13_a_failed_child_that_is_removed_holds_nobody(bench, end, policy):
    job = await three_children(bench, policy)
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    await bench.fail(C2)
    await end(bench)
    await job.refresh()
    assert job.state == ("failed" if policy == "fail_parent" else "waiting")
    assert C2 not in await job.get_pending_children()


@pytest.mark.parametrize("policy", ["wait", "fail_parent"])
async def test_h13_a_failed_child_that_retention_trims_holds_nobody(bench, policy):
    job = await three_children(bench, policy)
    await bench.run("thumb:c1")
    await bench.run("thumb:c3")
    await bench.fail(C2, keep=":1")
    await bench.queue("risky").add("other", job_id="x")
    await bench.fail("risky:x", keep=":1")
    assert await bench.state(C2) == "gone"
    await job.refresh()
    assert job.state == ("failed" if policy == "fail_parent" else "waiting")
    assert await job.get_pending_children() == []


@pytest.mark.parametrize("upper", POLICIES)
async def test_h13_a_failed_parent_fails_its_own_parent_by_its_own_policy(bench, upper):
    """A grandchild fails under fail_parent; what that does to the grandparent is the middle one's policy."""
    middle = parent(child(2, "risky"), job_id="m", queue="middle", on_failure=upper)
    top = (await bench.flows.add(parent(middle, child(1), job_id="top"))).job
    await bench.fail(C2)
    assert (await bench.job("middle:m")).failed_reason == "child risky:c2 failed: RuntimeError: no"
    await bench.run("thumb:c1")
    await top.refresh()
    states = {"fail_parent": "failed", "wait": "waiting-children"}
    assert top.state == states.get(upper, "waiting")
    if upper == "fail_parent":
        assert top.failed_reason == "child middle:m failed: child risky:c2 failed: RuntimeError: no"


async def test_two_children_fail_their_parent_once(bench, redis):
    job = await three_children(bench, "fail_parent")
    await bench.fail(C2)
    await bench.fail("thumb:c1")
    await job.refresh()
    assert job.failed_reason.startswith("child risky:c2 failed")
    assert sorted(await job.get_children_failures()) == [C2, "thumb:c1"]
    assert len(await read_events(redis, bench.queue("report").keys, "failed")) == 1


async def test_a_parent_that_is_removed_when_it_fails_leaves_nothing(bench, redis):
    tree = parent(child(1), child(2, "risky"), remove_on_fail=True)
    job = (await bench.flows.add(tree)).job
    await bench.fail(C2)
    assert await bench.state("report:p") == "gone"
    with pytest.raises(Exception, match="child risky:c2 failed: RuntimeError: no"):
        await job.wait_until_finished(2)
    await bench.run("thumb:c1")


async def test_a_completed_child_that_runs_again_releases_nobody_twice(bench, redis):
    job = await three_children(bench, None)
    await bench.run("thumb:c1")
    await (await bench.job("thumb:c1")).retry("completed")
    await bench.run("thumb:c1", text='"again"')
    assert await job.get_pending_children() == [C2, "thumb:c3"]
    await bench.run("thumb:c3")
    await (await bench.job("thumb:c3")).retry("completed")
    await bench.fail("thumb:c3")  # its success counts, what came later does not
    assert (await job.refresh()).state == "waiting-children"
    await bench.run(C2)
    assert (await job.refresh()).state == "waiting"
    assert (await job.get_children_values())["thumb:c1"] == "done"
    assert len(await read_events(redis, bench.queue("report").keys, "waiting")) == 1


async def test_a_child_that_two_workers_ran_counts_once(bench, redis):
    """Its first worker lost it; the late result is refused and releases nobody."""
    job = await three_children(bench, None)
    for name in ("thumb:c1", "thumb:c3"):
        await bench.run(name)
    queue = bench.queue("risky")
    [(_, claim)], _ = await bench.take("risky")
    await redis.zadd(queue.keys["active"], {"c2": 1})
    await queue.connection.call("recover", max_stalled=1)
    await bench.run(C2)
    _, words = await bench.take("risky", 0, [("completed", "c2", claim, 1, '"late"', "", ":")])
    assert words == "lock-lost"
    assert (await job.refresh()).state == "waiting"
    assert (await job.get_children_values())[C2] == "done"
    assert len(await read_events(redis, bench.queue("report").keys, "waiting")) == 1
