"""A bad flow is refused as a whole, with one sentence that names the node; nothing is stored."""

import pytest

from qlab import Deduplicate, FlowError, FlowProducer, PayloadError, RedisUnavailable
from qlab.errors import SchemaMismatch
from tests.redis.flow_state import child, parent

LEAF = {"name": "a", "queue": "q"}


def cycle():
    node = {"name": "a", "queue": "q"}
    node["children"] = [{"name": "b", "queue": "q", "children": [node]}]
    return node


def below(node):
    return {"name": "top", "queue": "q", "children": [LEAF, node]}


BAD = {
    "a cycle": (cycle(), r"children\[0\]\.children\[0\] of the flow: it hangs below itself"),
    "no dict": (below("thumb"), r"children\[1\] of the flow: a node is a dict .* not str"),
    "root is no dict": (None, "root of the flow: a node is a dict .* not NoneType"),
    "no queue": (below({"name": "a"}), "'queue' is missing"),
    "parent without queue": ({"name": "a", "queue": None, "children": [LEAF]}, "'queue' is missing"),
    "bad queue": (below({"name": "a", "queue": "a:b"}), "queue name 'a:b'"),
    "parent with a bad queue": ({"name": "a", "queue": "", "children": [LEAF]}, "root of .* queue name ''"),
    "no name": (below({"queue": "q"}), "'name' is missing"),
    "bad name": (below(LEAF | {"name": ""}), "job name must be a string"),
    "unknown key": (below(LEAF | {"queueName": "q"}), "unknown keys 'queueName'; there are name, queue"),
    "unknown option": (below(LEAF | {"options": {"prio": 1}}), "unknown options 'prio'; there are job_id"),
    "options no dict": (below(LEAF | {"options": ["attempts"]}), "options must be a dict"),
    "bad option": (below(LEAF | {"options": {"attempts": 0}}), r"children\[1\] of the flow: attempts"),
    "children no list": (below(LEAF | {"children": "q"}), "children must be a list"),
    "children falsy": (below(LEAF | {"children": 0}), "children must be a list of nodes, not 0"),
    "options falsy": (below(LEAF | {"options": []}), "options must be a dict"),
    "one child as a dict": (below(LEAF | {"children": {"name": "a"}}), "children must be a list"),
    "bad job id": (below(child(1, job_id="a:b")), "job id 'a:b'"),
    "the same id twice": (parent(child(1), child(1)), r"children\[1\] .* job thumb:c1 is in .* twice"),
    "its parent's id": (parent(child(1, "report", job_id="p")), "job report:p is in the flow twice"),
    "unknown policy": (below(LEAF | {"on_failure": "explode"}), "on_failure must be one of fail_parent"),
    "policy of the root": (LEAF | {"on_failure": "wait"}, "root of .* the root has none"),
    "deduplicated child": (below(LEAF | {"options": {"deduplicate": Deduplicate("k", 1)}}), "belongs to"),
    "too many": ({"name": "a", "queue": "q", "children": [LEAF] * 1000}, "at most 1,000 jobs"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_flow_is_refused_before_anything_is_sent(bench, what):
    flow, sentence = BAD[what]
    with pytest.raises(ValueError, match=sentence) as caught:
        await bench.flows.add(flow)
    assert "\n" not in str(caught.value)
    assert await bench.redis.keys(f"{bench.prefix}:*") == []


async def test_a_payload_that_cannot_be_sent_is_named(bench):
    with pytest.raises(PayloadError, match=r"children\[1\] of the flow: data is not strict JSON"):
        await bench.flows.add(below(LEAF | {"data": float("nan")}))


async def test_an_unknown_default_policy_is_refused(bench):
    with pytest.raises(ValueError, match="on_child_failure must be one of"):
        await bench.flows.add(LEAF, on_child_failure="retry")


async def test_a_thousand_jobs_are_one_flow(bench):
    node = await bench.flows.add({"name": "a", "queue": "q", "children": [LEAF] * 999})
    assert len(node.children) == len(await node.job.get_pending_children()) == 999
    assert await bench.queue("q").drain() == 1000


@pytest.mark.parametrize("state", ["waiting", "delayed", "active", "completed", "failed", "waiting-children"])
async def test_a_child_that_exists_already_is_refused_in_whatever_state(bench, state):
    """Also if it belongs to another parent; and not one job of the flow is stored."""
    if state == "waiting-children":
        await bench.flows.add(parent(child(9), queue="thumb", job_id="c2"))
    else:
        options = {"delay": 60} if state == "delayed" else {}
        await bench.flows.add(parent(child(2, **options), job_id="first"))
    if state == "active":
        await bench.take("thumb")
    elif state in ("completed", "failed"):
        await bench.run("thumb:c2", state)
    before = {key: await bench.redis.dump(key) for key in await bench.redis.keys(f"{bench.prefix}:*thumb*")}
    tree = parent(child(1), parent(child(3), child(2), job_id="inner", queue="middle"))
    with pytest.raises(FlowError, match=rf"job thumb:c2 exists already \({state}\).*nothing was stored"):
        await bench.flows.add(tree)
    names = ("report:p", "middle:inner", "thumb:c1", "thumb:c3")
    assert set((await bench.states(*names)).values()) == {"gone"}
    after = {key: await bench.redis.dump(key) for key in await bench.redis.keys(f"{bench.prefix}:*thumb*")}
    assert after == before


async def test_an_inner_parent_that_exists_already_is_refused(bench):
    await bench.queue("middle").add("a", job_id="inner")
    with pytest.raises(FlowError, match=r"job middle:inner exists already \(waiting\)"):
        await bench.flows.add(parent(parent(child(1), job_id="inner", queue="middle")))


async def test_a_refused_flow_does_not_take_the_key_of_its_deduplication(bench):
    await bench.queue("thumb").add("a", job_id="c1")
    dedupe = Deduplicate("k", 60)
    with pytest.raises(FlowError):
        await bench.flows.add(parent(child(1), deduplicate=dedupe))
    node = await bench.flows.add(parent(child(2), deduplicate=dedupe))
    assert node.job.duplicate is False


async def test_a_flow_into_a_queue_of_another_schema_is_refused(bench):
    await bench.redis.hset(bench.queue("thumb").keys["meta"], "schema", "0")
    with pytest.raises(SchemaMismatch, match="queue 'thumb' was written with key schema 0"):
        await bench.flows.add(parent(child(1)))
    assert await bench.state("report:p") == "gone"
    await bench.redis.delete(bench.queue("thumb").keys["meta"])


async def test_redis_is_away(prefix):
    async with FlowProducer("redis://127.0.0.1:1", prefix=prefix) as flows:
        with pytest.raises(RedisUnavailable, match="cannot reach Redis"):
            await flows.add(parent(child(1)))
