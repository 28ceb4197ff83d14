"""A parent runs once, after its children, whatever the queues."""

import asyncio

import pytest

from qlab import Backoff, Deduplicate, FlowProducer, Worker
from tests.redis.flow_state import child, parent
from tests.redis.queue_state import clocks_apart, members, read_events, until


async def test_a_parent_runs_after_its_children_in_another_queue(bench, redis_url, prefix):
    order = []

    async def thumb(job):
        order.append(f"thumb {job.data}")
        return job.data * 10

    async def report(job):
        order.append("report")
        return await job.get_children_values()

    async with (
        Worker("thumb", thumb, redis_url, prefix=prefix),
        Worker("report", report, redis_url, prefix=prefix),
    ):
        node = await bench.flows.add(parent(child(1), child(2)))
        assert await node.job.wait_until_finished(5) == {"thumb:c1": 10, "thumb:c2": 20}
    assert sorted(order[:2]) == ["thumb 1", "thumb 2"]
    assert order[2:] == ["report"]


async def test_what_add_returns_is_the_tree(bench):
    node = await bench.flows.add(parent(child(1), parent(child(2), job_id="q", queue="thumb"), job_id="top"))
    assert (node.job.id, node.job.queue_name, node.job.state) == ("top", "report", "waiting-children")
    leaf, inner = node.children
    assert (leaf.job.id, leaf.job.state, inner.job.state) == ("c1", "waiting", "waiting-children")
    assert [one.job.id for one in inner.children] == ["c2"]
    for job in (node.job, leaf.job, inner.job, inner.children[0].job):
        before = job.record
        found = (await job.refresh()).record
        assert abs(found.added_at - before.added_at) <= clocks_apart()
        assert found._replace(added_at=before.added_at) == before


async def test_waiting_for_children_is_a_state_of_its_own(bench, redis):
    node = await bench.flows.add(parent(child(1)))
    queue = bench.queue("report")
    assert (await members(redis, queue.keys))["waiting-children"] == ["p"]
    assert await queue.get_job_counts("waiting-children", "waiting") == {"waiting-children": 1, "waiting": 0}
    assert (await node.job.get_pending_children(), await node.job.get_children_values()) == (["thumb:c1"], {})
    assert [one["event"] for one in await read_events(redis, queue.keys)] == ["added", "waiting-children"]


async def test_a_flow_of_one_node_is_a_job(bench):
    node = await bench.flows.add({"name": "a", "queue": "q", "data": 7, "children": []})
    assert (node.job.data, node.children) == (7, [])
    await bench.run(f"q:{node.job.id}")
    assert await node.job.get_children_values() == {}


async def test_child_and_parent_may_share_a_queue_and_one_slot(bench, redis_url, prefix):
    async def handler(job):
        return [job.name, await job.get_children_values()]

    async with Worker("q", handler, redis_url, prefix=prefix, concurrency=1):
        node = await bench.flows.add(parent(child(1, "q"), child(2, "q"), queue="q"))
        name, values = await node.job.wait_until_finished(5)
    assert (name, sorted(values)) == ("parent", ["q:c1", "q:c2"])


async def test_a_tree_of_three_levels_runs_from_its_leaves(bench):
    inner = parent(child(2), child(3), job_id="inner", queue="middle")
    node = await bench.flows.add(parent(child(1), inner))
    await bench.run("thumb:c1")
    await bench.run("thumb:c2")
    assert await bench.states("middle:inner", "report:p") == {
        "middle:inner": "waiting-children", "report:p": "waiting-children"
    }  # fmt: skip
    await bench.run("thumb:c3")
    assert await bench.states("middle:inner", "report:p") == {
        "middle:inner": "waiting", "report:p": "waiting-children"
    }  # fmt: skip
    await bench.run("middle:inner", text='"sum"')
    assert await node.job.get_children_values() == {"thumb:c1": "done", "middle:inner": "sum"}
    await bench.run("report:p")


async def test_a_chain_of_a_thousand_jobs_ends_in_one_failure_at_the_top(bench):
    """As deep as it can be: no recursion, in Python or in Lua, and reasons that do not grow without end."""
    node = {"name": "n", "queue": "q"}
    for number in range(999):
        node = {"name": "n", "queue": f"q{number % 3}", "children": [node]}
    top = (await bench.flows.add(node)).job
    [(leaf, _)], _ = await bench.take("q")
    await bench.end(f"q:{leaf}", "failed", "RuntimeError: no")
    assert (await top.refresh()).state == "failed"
    assert top.failed_reason.endswith("failed: RuntimeError: no")
    assert len(top.failed_reason) < 3000
    await (await bench.job(f"q:{leaf}")).retry()
    assert (await top.refresh()).state == "waiting-children"
    await top.remove()
    assert await bench.redis.keys(f"{bench.prefix}:*job:*") == []


async def test_priority_and_delay_of_a_parent_count_from_its_release(bench, redis):
    """The delay begins when the children have ended."""
    await bench.flows.add(parent(child(1), job_id="urgent", priority=5))
    later = (await bench.flows.add(parent(child(2), job_id="later", delay=60))).job
    await bench.run("thumb:c1")
    await bench.run("thumb:c2")
    assert await bench.states("report:urgent", "report:later") == {
        "report:urgent": "prioritized", "report:later": "delayed"
    }  # fmt: skip
    [(_, due)] = await redis.zrange(bench.queue("report").keys["delayed"], 0, -1, withscores=True)
    ended = (await bench.job("thumb:c2")).record.finished_at
    assert due == ended + 60_000
    await later.promote()
    assert await bench.take("report", 5) == ([("later", 1), ("urgent", 1)], "")


async def test_a_child_with_a_delay_is_waited_for(bench):
    await bench.flows.add(parent(child(1, delay=60)))
    assert await bench.state("thumb:c1") == "delayed"
    await (await bench.job("thumb:c1")).promote()
    await bench.run("thumb:c1")
    assert await bench.state("report:p") == "waiting"


async def test_a_released_parent_waits_while_its_queue_is_paused(bench, redis_url, prefix):
    queue = bench.queue("report")
    await queue.pause()
    node = await bench.flows.add(parent(child(1)))

    async def handler(job):
        return "ran"

    async with Worker("report", handler, redis_url, prefix=prefix):
        await bench.run("thumb:c1")
        assert await bench.state("report:p") == "waiting"
        await queue.resume()
        assert await node.job.wait_until_finished(5) == "ran"


@pytest.mark.parametrize("paused", ["thumb", "report"])
async def test_the_gate_of_one_queue_is_not_that_of_the_other(bench, paused):
    """The trip that ends the child releases the parent elsewhere, and then takes at home."""
    await bench.flows.add(parent(child(1)))
    await bench.queue("thumb").add("next", job_id="next")
    [(_, claim)], _ = await bench.take("thumb")
    await bench.queue(paused).pause()
    taken, words = await bench.take("thumb", 5, [("completed", "c1", claim, 1, "1", "", ":")])
    assert (words, await bench.state("report:p")) == ("ok", "waiting")
    assert taken == ([] if paused == "thumb" else [("next", 1)])
    woken = {name: await bench.redis.llen(bench.queue(name).keys["wake"]) for name in ("thumb", "report")}
    assert woken["report"] == (0 if paused == "report" else 1)


@pytest.mark.parametrize("limited", ["thumb", "report"])
async def test_the_limit_of_one_queue_is_not_that_of_the_other(bench, limited):
    await bench.flows.add(parent(child(1)))
    await bench.queue("thumb").add_bulk([("next", n) for n in range(3)])
    [(_, claim)], _ = await bench.take("thumb")
    await bench.queue(limited).set_global_rate_limit(2, 60)
    taken, _ = await bench.take("thumb", 5, [("completed", "c1", claim, 1, "1", "", ":")])
    assert len(taken) == (2 if limited == "thumb" else 3)
    window = [
        await bench.redis.hget(bench.queue(name).keys["meta"], "window_count") for name in ("thumb", "report")
    ]
    assert window == (["2", None] if limited == "thumb" else [None, None])


async def test_a_limit_of_the_parents_queue_holds_for_released_parents(bench):
    await bench.queue("report").set_global_rate_limit(1, 60)
    for number in (1, 2):
        await bench.flows.add(parent(child(number), job_id=f"p{number}"))
        await bench.run(f"thumb:c{number}")
    assert [len(taken) for taken, _ in (await bench.take("report", 5), await bench.take("report", 5))] == [
        1,
        0,
    ]


async def test_a_flow_leaves_a_wake_up_where_there_is_something_to_do(bench):
    await bench.flows.add(parent(child(1), child(2, "other", delay=60)))
    names = ("thumb", "other", "report")
    woken = {name: await bench.redis.llen(bench.queue(name).keys["wake"]) for name in names}
    assert woken == {
        "thumb": 1,
        "other": 1,
        "report": 0,
    }  # a delayed job: somebody has to know when it is due


async def test_an_idle_worker_of_the_parents_queue_is_woken(bench, redis_url, prefix):
    async def handler(job):
        return "ran"

    async with Worker("report", handler, redis_url, prefix=prefix) as worker:
        node = await bench.flows.add(parent(child(1)))
        await until(lambda: worker._pump._watching is not None and not worker._pump._watching.done())
        await bench.run("thumb:c1")
        assert await node.job.wait_until_finished(2) == "ran"  # an idle worker looks by itself after 3 s


async def test_a_parents_own_retries_see_the_same_children(bench, redis_url, prefix):
    seen = []

    async def report(job):
        seen.append(await job.get_children_values())
        if len(seen) < 3:
            raise RuntimeError("no")
        return len(seen)

    node = await bench.flows.add(parent(child(1), attempts=3, backoff=Backoff.fixed(0.01)))
    await bench.run("thumb:c1")
    async with Worker("report", report, redis_url, prefix=prefix):
        assert await node.job.wait_until_finished(5) == 3
    assert seen == [{"thumb:c1": "done"}] * 3
    assert (await bench.job("report:p")).attempts_made == 3


async def test_a_child_that_fails_and_succeeds_at_its_next_attempt_releases_once(bench, redis):
    await bench.flows.add(parent(child(1, attempts=2)))
    await bench.run("thumb:c1", "retrying", "RuntimeError: no", "0")
    assert await bench.state("report:p") == "waiting-children"
    await bench.run("thumb:c1")
    assert await bench.state("report:p") == "waiting"
    assert len(await read_events(redis, bench.queue("report").keys, "waiting")) == 1


async def test_a_parent_that_stalls_or_is_put_back_waits_for_nobody(bench):
    await bench.flows.add(parent(child(1)))
    await bench.run("thumb:c1")
    await bench.run("report:p", "put-back", "")
    assert await bench.state("report:p") == "waiting"
    await bench.run("report:p")


async def test_the_same_root_twice_is_one_flow(bench):
    """A producer that saw no answer may say it again, if it has given the root a job_id."""
    first = await bench.flows.add(parent(child(1)))
    again = await bench.flows.add(parent(child(1), child(2)))
    assert (first.job.duplicate, again.job.duplicate, again.children) == (False, True, [])
    assert again.job.record.birth == first.job.record.birth
    assert await bench.state("thumb:c2") == "gone"


async def test_many_who_add_the_same_flow_add_it_once(bench, redis_url, prefix):
    producers = [FlowProducer(redis_url, prefix=prefix) for _ in range(5)]
    nodes = await asyncio.gather(*(one.add(parent(child(1), child(2))) for one in producers))
    assert sorted(node.job.duplicate for node in nodes) == [False, True, True, True, True]
    for one in producers:
        await one.close()


async def test_deduplication_of_a_root_leaves_its_children_out_too(bench):
    dedupe = Deduplicate("order-7", 60)
    await bench.flows.add(parent(child(1), deduplicate=dedupe))
    again = await bench.flows.add(parent(child(2), job_id="other", deduplicate=dedupe))
    assert (again.job.duplicate, again.job.id) == (True, "p")
    assert await bench.states("thumb:c2", "report:other") == {"thumb:c2": "gone", "report:other": "gone"}


async def test_a_repeated_command_of_our_own_is_no_duplicate(bench):
    """The client library may have sent it twice: the ids were made here, so the flow is ours."""
    leaf = {"name": "leaf", "queue": "thumb"}
    node = await bench.flows.add({"name": "top", "queue": "report", "children": [leaf]})
    connection = bench.queue("report").connection
    call = connection.__class__.call

    async def twice(self, name, *words, **fixed):
        await call(self, name, *words, **fixed)
        return await call(self, name, *words, **fixed)

    connection.__class__.call = twice
    try:
        again = await bench.flows.add({"name": "top", "queue": "report", "children": [leaf]})
    finally:
        connection.__class__.call = call
    assert (again.job.duplicate, len(again.children)) == (False, 1)
    assert (await again.children[0].job.refresh()).state == "waiting"
    assert await bench.queue("report").get_job_counts("waiting-children") == {"waiting-children": 2}
    assert node.job.id != again.job.id
