"""A state machine drives the real server and the model side by side and compares every set at every step."""

import asyncio
import json
import os
import uuid

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qlab import JobStateError, Queue, SyncQueue, schedule
from tests.model.model import Model
from tests.redis.queue_state import SETS

LOCK, MAX_STALLED = 1000, 1
WORKERS = st.sampled_from(["A", "B"])
DELAYS = st.sampled_from([0, 0, 1, 500, 1000, 1000, 5000])
LIMITS = st.sampled_from([None, (1, 1000), (3, 500), (3, 2000), (5, 1000)])
SCHEDULES = st.tuples(
    st.sampled_from([700, 1000, 2500]), st.sampled_from([("skip", 1), ("once", 1), ("all", 2), ("all", 5)])
)
PRIORITIES = st.sampled_from([None, None, 1, 2, 7])


class QueueMachine(RuleBasedStateMachine):
    """Two workers that are only numbers: their trips are calls of the scripts that a Worker makes.

    Where a handler runs (on the loop, in a thread, in a process of its own) is nothing to this model: each
    ends in one of the settlements below, made by `qlab.execute` alone. What only a process can do, such as to
    die, becomes a failure there (tests/redis/test_sandbox.py).
    """

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model(LOCK, MAX_STALLED)
        self.prefix = f"test-{uuid.uuid4().hex[:12]}"
        self.queue = Queue(
            "q", os.environ["QLAB_REDIS_URL"], prefix=self.prefix, clock=lambda: self.model.now / 1000
        )
        self.producer = SyncQueue("q", os.environ["QLAB_REDIS_URL"], prefix=self.prefix)
        self.claims = []  # (job id, worker, claim) of everything ever taken, also what was lost since
        self.trips = {"A": 0, "B": 0}
        self.added = 0

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def call(self, name, rest=None, **fixed):
        return self.run(self.queue.connection.call(name, rest, **fixed))

    def new_id(self):
        """Ids that are the same in every run of one example."""
        self.added += 1
        return f"job-{self.added:03}"

    def teardown(self):
        self.run(self.no_other_key_is_left())
        self.run(self.queue.connection.delete_all())
        self.run(self.queue.close())
        self.producer.close()
        self.loop.close()

    async def no_other_key_is_left(self):
        """The hashes are those of the jobs that the model knows, and every other key is a documented one."""
        keys = self.queue.keys
        found = {
            key.removeprefix(keys.base) async for key in self.queue.connection.client.scan_iter(keys["*"])
        }
        jobs = {f"job:{job_id}" for job_id in self.model.jobs}
        schedules = {f"schedule:{name}" for name in self.model.schedules}
        others = {*SETS, "meta", "events", "wake", "sequence", "schedules", "results", "results_old"}
        assert {key for key in found if key.startswith(("job:", "schedule:"))} == jobs | schedules
        rest = found - jobs - schedules - others
        assert all(key.startswith("pump:") for key in rest), rest

    @rule(ms=st.sampled_from([0, 1, 499, 500, 999, 1000, 3000]))
    def time_passes(self, ms):
        self.model.now += ms

    @rule(delay=DELAYS, priority=PRIORITIES, attempts=st.integers(1, 3))
    def add(self, delay, priority, attempts):
        job = self.run(
            self.queue.add(
                "a", job_id=self.new_id(), delay=delay / 1000, priority=priority, attempts=attempts
            )
        )
        self.model.add(job.id, delay, priority, attempts)

    @rule(jobs=st.lists(st.tuples(DELAYS, PRIORITIES), max_size=5))
    def add_bulk(self, jobs):
        entries = [
            ("a", None, {"job_id": self.new_id(), "delay": delay / 1000, "priority": priority})
            for delay, priority in jobs
        ]
        added = self.run(self.queue.add_bulk(entries)) if entries else []
        for job, (delay, priority) in zip(added, jobs, strict=True):
            self.model.add(job.id, delay, priority, 1)

    @rule(priority=PRIORITIES, attempts=st.integers(1, 3))
    def add_without_asyncio(self, priority, attempts):
        added = self.producer.add("a", job_id=self.new_id(), priority=priority, attempts=attempts)
        assert not added.duplicate
        self.model.add(added.id, 0, priority, attempts)

    @rule(data=st.data(), size=st.integers(1, 3), priority=PRIORITIES)
    @precondition(lambda self: self.model.jobs)
    def add_bulk_without_asyncio_with_a_duplicate(self, data, size, priority):
        old = data.draw(st.sampled_from(sorted(self.model.jobs)))
        new = [self.new_id() for _ in range(size)]
        entries = [("a", None, {"job_id": one, "priority": priority}) for one in [old, *new, new[0]]]
        added = self.producer.add_bulk(entries)
        assert [one.duplicate for one in added] == [True, *[False] * size, True]
        for one in new:
            self.model.add(one, 0, priority, 1)

    @rule(worker=WORKERS, want=st.integers(0, 4), repeat=st.booleans())
    def take(self, worker, want, repeat):
        self.trip(worker, want, [], repeat)

    @rule(data=st.data(), worker=WORKERS, want=st.integers(0, 2), repeat=st.booleans())
    @precondition(lambda self: self.claims)
    def settle(self, data, worker, want, repeat):
        ends = st.sampled_from(["completed", "failed", "retrying", "delay", "put-back"])
        chosen = data.draw(st.lists(st.sampled_from(self.claims), min_size=1, max_size=3, unique=True))
        settlements = [
            (job_id, claim, data.draw(ends), data.draw(st.sampled_from([0, 500, 1000])))
            for job_id, owner, claim in chosen
            if owner == worker
        ]
        self.trip(worker, want, settlements, repeat)

    def trip(self, worker, want, settlements, repeat):
        self.trips[worker] += 1
        words, expected = [], []
        for job_id, claim, kind, delay in settlements:
            job = self.model.jobs.get(job_id)
            attempts = job.attempts_made + 1 if job else 1
            delay = max(delay, 1) if kind == "delay" else delay
            extra = str(delay) if kind in ("retrying", "delay") else ":"
            words += [kind, job_id, claim, attempts, "text", "stack", extra]
            expected.append(self.model.settle(job_id, worker, claim, kind, delay))
        taken = self.model.take(worker, want)
        for _ in range(2 if repeat else 1):
            _, outcomes, got, _ = self.call(
                "settle_and_take", words, token=f"token-{worker}", worker=worker, lock=LOCK,
                trip=self.trips[worker], want=want, count=len(settlements),
            )  # fmt: skip
            assert outcomes.split() == expected
            assert [job_id for job_id, _, _ in json.loads(got)] == taken
        self.claims += [(job_id, worker, self.model.jobs[job_id].claim) for job_id in taken]

    @rule(worker=WORKERS)
    def renew(self, worker):
        held = [(job_id, claim) for job_id, owner, claim in self.claims if owner == worker]
        words = [word for pair in held for word in pair]
        lost = self.call("renew", words, token=f"token-{worker}", lock=LOCK)
        assert lost == self.model.renew(worker, held)

    @rule()
    def recover(self):
        found = self.call("recover", max_stalled=MAX_STALLED)
        assert sorted(job_id for job_id, _ in found) == sorted(self.model.recover())

    @rule(data=st.data(), verb=st.sampled_from(["remove", "retry", "change_delay", "promote"]))
    @precondition(lambda self: self.model.jobs)
    def change(self, data, verb):
        job_id = data.draw(st.sampled_from(sorted(self.model.jobs)))
        state = self.model.jobs[job_id].state
        job = self.run(self.queue.get_job(job_id))
        fits = {
            "remove": state != "active", "retry": state in ("completed", "failed"),
            "change_delay": state == "delayed", "promote": state == "delayed",
        }  # fmt: skip
        arguments = {"change_delay": [0.7], "retry": ["failed"]}.get(verb, [])
        if verb == "retry" and state == "completed":
            arguments = ["completed"]
        if not fits[verb]:
            with pytest.raises(JobStateError):
                self.run(getattr(job, verb)(*arguments))
            return
        self.run(getattr(job, verb)(*arguments))
        if verb == "change_delay":
            self.model.change_delay(job_id, 700)
        else:
            getattr(self.model, "replay" if verb == "retry" else verb)(job_id)

    @rule(verb=st.sampled_from(["pause", "resume"]))
    def gate(self, verb):
        self.run(getattr(self.queue, verb)())
        self.model.paused = verb == "pause"

    @rule(ms=st.sampled_from([100, 1500]))
    def rate_limit(self, ms):
        self.run(self.queue.rate_limit(ms / 1000))
        self.model.limited_until = max(self.model.limited_until, self.model.now + ms)

    @rule(limiter=LIMITS)
    def limit(self, limiter):
        if limiter is None:
            self.run(self.queue.remove_global_rate_limit())
        else:
            self.run(self.queue.set_global_rate_limit(limiter[0], limiter[1] / 1000))
        self.model.set_limit(limiter)

    @rule(name=st.sampled_from(["s1", "s2"]), schedule=SCHEDULES)
    def upsert_schedule(self, name, schedule):
        every, (missed, limit) = schedule
        made = self.run(
            self.queue.upsert_job_scheduler(name, "a", every=every / 1000, missed=missed, limit=limit)
        )
        self.model.upsert(name, every, missed, limit)
        assert made.next == self.model.schedules[name].next

    @rule(name=st.sampled_from(["s1", "s2"]))
    def remove_schedule(self, name):
        assert self.run(self.queue.remove_job_scheduler(name)) == (name in self.model.schedules)
        self.model.schedules.pop(name, None)

    @rule(rivals=st.integers(1, 2))
    @precondition(lambda self: self.model.schedules)
    def tick(self, rivals):
        async def everybody():
            return await asyncio.gather(*(schedule.run_due(self.queue.connection) for _ in range(rivals)))

        assert sum(self.run(everybody())) == self.model.tick()

    @rule(state=st.sampled_from(["waiting", "prioritized", "delayed", "completed", "failed"]))
    def clean(self, state):
        removed = self.run(self.queue.clean(state, limit=2))
        assert len(removed) == min(2, len(self.model.in_state(state)))
        for job_id in removed:
            self.model.remove(job_id)

    @invariant()
    def everything_is_as_the_model_says(self):
        """One look at all sets, all jobs and all schedules."""
        model, keys = self.model, self.queue.keys
        sets, hashes = self.run(self.look())
        assert sets["waiting"] == model.waiting
        assert sets["prioritized"] == model.prioritized
        assert sets["delayed"] == model.delayed
        assert sorted(sets["active"]) == sorted(model.in_state("active"))
        for state in ("completed", "failed"):
            assert sorted(sets[state]) == sorted(model.finished[state])
        for job, stored in zip(model.jobs.values(), hashes, strict=True):
            assert stored["state"] == job.state, keys.job(job.id)
            assert bool(stored.get("token")) == (job.state == "active")
            assert ("place" in stored) == (job.state in ("delayed", "prioritized"))
            assert ("alone" in stored) == job.alone
            counters = ("attempts_made", "stalled_counter", "claim")
            found = [int(stored.get(name) or 0) for name in counters]
            assert found == [job.attempts_made, job.stalled, job.claim]

    async def look(self):
        """The members of every set, and the hash of each job that the model knows, in one round trip."""
        keys, pipe = self.queue.keys, self.queue.connection.client.pipeline(transaction=False)
        for state, kind in SETS.items():
            (pipe.lrange if kind == "LIST" else pipe.zrange)(keys[state], 0, -1)
        for job_id in self.model.jobs:
            pipe.hgetall(keys.job(job_id))
        replies = await pipe.execute()
        sets = zip(SETS, replies, strict=False)
        return {state: [one.rpartition(":")[2] for one in ids] for state, ids in sets}, replies[len(SETS) :]

    @invariant()
    def every_schedule_is_as_the_model_says(self):
        if self.model.schedules:
            found = {one.id: (one.next, one.count) for one in self.run(self.queue.get_job_schedulers())}
            assert found == {name: (one.next, one.count) for name, one in self.model.schedules.items()}


# Nearly every example has all its steps: 6,000 in a run.
QueueMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestQueue = pytest.mark.timeout(300)(QueueMachine.TestCase)
