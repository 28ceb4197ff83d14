"""A state machine drives flows on the real server and in the model, and compares every job at every step."""

import asyncio
import os
import uuid

import pytest
import redis.asyncio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from qlab import FlowError, JobStateError
from tests.model.flow_model import FlowJob, FlowModel
from tests.redis.flow_state import POLICIES, Bench, check_flows

QUEUES = ("a", "b", "c")
IDS = st.integers(1, 20)  # few, so that a new flow often meets the jobs of an older one
NODES = st.tuples(
    st.sampled_from(QUEUES), IDS, st.sampled_from([*POLICIES, "fail_parent"]),
    st.sampled_from([None, None, 3]), st.sampled_from([0, 0, 0, 1000]), st.integers(0, 5),
)  # fmt: skip
FLOWS = st.lists(NODES, min_size=3, max_size=6, unique_by=lambda node: node[:2])
MARKS = {"value": "=", "failure": "!"}


class FlowMachine(RuleBasedStateMachine):
    """Jobs are known by `<queue>:<id>`."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = FlowModel()
        self.prefix = f"test-{uuid.uuid4().hex[:12]}"
        url = os.environ["QLAB_REDIS_URL"]
        self.redis = redis.asyncio.Redis.from_url(url, decode_responses=True)
        self.bench = Bench(self.redis, url, self.prefix, clock=lambda: self.model.now / 1000)
        self.flows = 0
        self.lost = []  # (name, claim) of holdings that are over

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def job(self, name):
        return self.run(self.bench.job(name))

    def teardown(self):
        self.run(check_flows(self.redis, self.prefix))
        for name in QUEUES:
            self.run(self.bench.queue(name).connection.delete_all())
        self.run(self.bench.close())
        self.run(self.redis.aclose())
        self.loop.close()

    def has(self, state):
        return any(job.state == state for job in self.model.jobs.values())

    def pick(self, data, *states):
        names = sorted(name for name, job in self.model.jobs.items() if not states or job.state in states)
        return data.draw(st.sampled_from(names))

    @initialize(nodes=FLOWS)
    def add_one(self, nodes):
        self.add(nodes)

    @rule(nodes=FLOWS)
    def add_another(self, nodes):
        self.add(nodes)

    def add(self, nodes):
        """Each node hangs below the one before it that its last number says; ids move on with each flow."""
        jobs, trees, shift = [], [], 7 * self.flows
        self.flows += 1
        for n, (queue, number, policy, priority, delay, above) in enumerate(nodes):
            upper = above % n if n else None
            parent = jobs[upper].name if n else None
            job_id = f"j{(number + shift) % 20 + 1}"
            jobs.append(FlowJob(f"{queue}:{job_id}", parent, policy, priority, delay))
            options = {"job_id": job_id, "priority": priority, "delay": delay / 1000}
            trees.append({"name": "a", "queue": queue, "options": options, "children": []})
            if n:
                trees[n]["on_failure"] = policy
                trees[upper]["children"].append(trees[n])
        answer = self.model.add(jobs)
        if answer == "exists":
            with pytest.raises(FlowError, match="exists already"):
                self.run(self.bench.flows.add(trees[0]))
        else:
            assert self.run(self.bench.flows.add(trees[0])).job.duplicate == (answer == "duplicate")

    @rule(queue=st.sampled_from(QUEUES), want=st.integers(1, 3), ms=st.sampled_from([0, 500, 1000]))
    def take(self, queue, want, ms):
        self.model.now += ms
        self.trip(queue, want, [])

    def trip(self, queue, want, settlements):
        self.model.promote_due(queue)
        ready = [one for one in self.model.jobs.values() if one.queue == queue and one.state in READY]
        taken, words = self.run(self.bench.take(queue, want, settlements))
        assert len(taken) == min(want, len(ready))
        for job_id, claim in taken:
            assert self.model.take(f"{queue}:{job_id}") == claim
        return words

    @rule(data=st.data(), kind=st.sampled_from(["completed", "completed", "failed", "retrying", "put-back"]),
          keep=st.sampled_from([True, True, False]), delay=st.sampled_from([0, 1000]))  # fmt: skip
    @precondition(lambda self: self.has("active"))
    def settle(self, data, kind, keep, delay):
        self.end(self.pick(data, "active"), kind, keep, delay)

    def end(self, name, kind, keep=True, delay=0):
        queue, _, job_id = name.partition(":")
        claim = self.model.jobs[name].claim
        self.lost.append((name, claim))
        if kind in ("completed", "failed"):
            self.model.finish(name, kind, keep=keep)
        else:
            self.model.come_back(name, delay if kind == "retrying" else 0)
        extra = str(delay) if kind == "retrying" else ":" if keep else ":0"
        assert self.trip(queue, 0, [(kind, job_id, claim, 1, "1", "", extra)]) == "ok"

    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def all_of_a_queue_completes(self, data, queue):
        self.work(data, queue, False)

    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def all_of_a_queue_fails(self, data, queue):
        self.work(data, queue, True)

    def work(self, data, queue, failed):
        """All that can run in a queue runs and ends."""
        self.model.now += 1000
        self.trip(queue, 36, [])
        active = sorted(one.name for one in self.model.jobs.values() if one.queue == queue)
        for name in data.draw(st.permutations(active)):
            if self.model.jobs[name].state == "active":
                self.end(name, "failed" if failed else "completed")

    @rule(data=st.data(), kind=st.sampled_from(["completed", "failed"]))
    @precondition(lambda self: self.lost)
    def settle_too_late(self, data, kind):
        name, claim = data.draw(st.sampled_from(self.lost))
        job = self.model.jobs.get(name)
        if job is None or job.state != "active":
            queue, _, job_id = name.partition(":")
            assert self.trip(queue, 0, [(kind, job_id, claim, 1, "1", "", ":")]) == "lock-lost"

    @rule(data=st.data(), final=st.booleans())
    @precondition(lambda self: self.has("active"))
    def stall(self, data, final):
        name = self.pick(data, "active")
        queue, _, job_id = name.partition(":")
        self.lost.append((name, self.model.jobs[name].claim))
        connection = self.bench.queue(queue).connection
        self.run(self.redis.zadd(connection.keys["active"], {job_id: 1}))
        most = 0 if final else 1000
        assert self.run(connection.call("recover", max_stalled=most)) == [[job_id, int(final)]]
        self.model.finish(name, "failed", keep=True) if final else self.model.come_back(name)

    @rule(
        data=st.data(),
        verb=st.sampled_from(["remove", "remove", "clean", "drain"]),
        queue=st.sampled_from(QUEUES),
    )
    @precondition(lambda self: len(self.model.jobs) > 8)
    def some_go(self, data, verb, queue):
        getattr(self, verb)(data, queue)

    def remove(self, data, _):
        name = self.pick(data)
        tree = self.model.tree(name)
        if any(self.model.jobs[one].state == "active" for one in tree):
            with pytest.raises(JobStateError, match="active"):
                self.run(self.job(name).remove())
        else:
            self.run(self.job(name).remove())
            self.model.remove(tree)

    def clean(self, data, queue):
        state = data.draw(st.sampled_from(CLEANED))
        found = self.run(self.bench.queue(queue).clean(state))
        assert sorted(f"{queue}:{job_id}" for job_id in found) == sorted(self.model.clean(queue, state))

    def drain(self, _, queue):
        expected = [self.model.clean(queue, one) for one in ("waiting-children", *READY)]
        assert self.run(self.bench.queue(queue).drain()) == sum(map(len, expected))

    @rule(data=st.data())
    @precondition(lambda self: self.has("failed"))
    def retry(self, data):
        name = self.pick(data, "failed")
        if not self.model.jobs[name].released and self.model.culprits(name):
            with pytest.raises(JobStateError, match="failed because of its child"):
                self.run(self.job(name).retry())
        else:
            self.run(self.job(name).retry())
            self.model.replay(name)

    @rule(data=st.data(), failed=st.booleans())
    @precondition(lambda self: self.has("completed"))
    def run_again(self, data, failed):
        """A job that has completed runs again, and ends in whatever way."""
        name = self.pick(data, "completed")
        self.run(self.job(name).retry("completed"))
        self.model.replay(name)
        self.work(data, name.partition(":")[0], failed)

    @invariant()
    def every_job_is_as_the_model_says(self):
        found = self.run(self.look())
        assert set(found) == set(self.model.jobs)
        for name, (state, pending, heard) in found.items():
            job = self.model.jobs[name]
            assert (name, state) == (name, job.state)
            assert pending == job.pending
            marks = {one: "x" if fatal else MARKS[kind] for one, (kind, fatal) in job.heard.items()}
            assert {one: word[0] for one, word in heard.items()} == marks

    async def look(self):
        """State, pending children and words of every job that is there."""
        names = [f"{queue}:j{number}" for queue in QUEUES for number in range(1, 21)]
        found = await self.redis.eval(LOOK, 0, self.prefix, *names)
        return {
            name: (state, set(pending), dict(zip(words[::2], words[1::2], strict=True)))
            for name, (state, pending, words) in zip(names, found, strict=True)
            if state or pending or words
        }


LOOK = """
local found = {}
for n = 2, #ARGV do
  local queue, id = string.match(ARGV[n], '(.*):(.*)')
  local base = ARGV[1] .. ':{' .. queue .. '}:'
  found[#found + 1] = {redis.call('HGET', base .. 'job:' .. id, 'state') or '',
    redis.call('SMEMBERS', base .. 'pending:' .. id), redis.call('HGETALL', base .. 'children:' .. id)}
end
return found
"""
READY = ("waiting", "prioritized")
CLEANED = (*READY, "delayed", "waiting-children", "completed", "failed")
FlowMachine.TestCase.settings = settings(
    max_examples=35, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestFlows = FlowMachine.TestCase
