"""Look at flows from outside, and drive workers by hand."""

from qlab import FlowProducer, Queue
from qlab.keys import Keys
from tests.redis.queue_state import check_invariants

POLICIES = ("fail_parent", "ignore_dependency", "remove_dependency", "continue_parent", "wait")


def child(number, queue="thumb", on_failure=None, **options):
    """A leaf with the id `c<number>`."""
    node = {"name": "child", "queue": queue, "data": number, "options": {"job_id": f"c{number}"} | options}
    return node | ({"on_failure": on_failure} if on_failure else {})


def parent(*children, queue="report", job_id="p", on_failure=None, **options):
    """A node with children."""
    options = {"job_id": job_id} | options
    node = {"name": "parent", "queue": queue, "options": options, "children": list(children)}
    return node | ({"on_failure": on_failure} if on_failure else {})


class Bench:
    """A producer of flows, queues by name, and one worker that does what the test says."""

    def __init__(self, redis, url, prefix, clock=None):
        self.redis, self.url, self.prefix = redis, url, prefix
        self.flows = FlowProducer(url, prefix=prefix, clock=clock)
        self._make = lambda name: Queue(name, url, prefix=prefix, clock=clock)
        self._queues = {}
        self._trips = 0

    def queue(self, name):
        if name not in self._queues:
            self._queues[name] = self._make(name)
        return self._queues[name]

    async def job(self, name):
        """The job `<queue>:<id>`."""
        queue, _, job_id = name.partition(":")
        return await self.queue(queue).get_job(job_id)

    async def state(self, name):
        job = await self.job(name)
        return job.state if job else "gone"

    async def states(self, *names):
        return {name: await self.state(name) for name in names}

    async def take(self, queue, want=1, settlements=()):
        """One trip of a worker: the ids and claims that it took."""
        self._trips += 1
        reply = await self.queue(queue).connection.call(
            "settle_and_take", [word for one in settlements for word in one], token="token", worker="hand",
            lock=30_000, trip=self._trips, want=want, count=len(settlements),
        )  # fmt: skip
        taken = await self.redis.get(f"{self.queue(queue).keys['pump']}:token")
        words = taken.split("|")[2].split()
        return list(zip(words[::2], map(int, words[1::2]), strict=True)), reply[1]

    async def end(self, name, kind="completed", text='"done"', keep=":", attempts=1):
        """Settle the job, which must be active, as a worker does; `keep` is the rule of retention."""
        queue, _, job_id = name.partition(":")
        claim = (await self.job(name)).claim
        _, words = await self.take(queue, 0, [(kind, job_id, claim, attempts, text, "", keep)])
        return words

    async def run(self, name, kind="completed", text='"done"', keep=":"):
        """Take jobs of the queue until this one is active, then settle it."""
        while await self.state(name) != "active":
            taken, _ = await self.take(name.partition(":")[0])
            assert taken, f"{name} is {await self.state(name)} and cannot be taken"
        assert await self.end(name, kind, text, keep) == "ok"

    async def fail(self, name, keep=":"):
        await self.run(name, "failed", "RuntimeError: no", keep)

    async def close(self):
        await check_flows(self.redis, self.prefix)
        await self.flows.close()
        for queue in self._queues.values():
            await queue.close()


async def check_flows(redis, prefix):
    """Every queue keeps its own invariants, and of the flows: what hangs on a job goes with it; a parent
    waits for somebody, and for nobody who can not end any more."""
    names = {key.split("{")[1].split("}")[0] for key in await redis.keys(f"{prefix}:{{*")}
    jobs = {}
    for name in names:
        keys = Keys(name, prefix)
        await check_invariants(redis, keys)
        for key in await redis.keys(keys.job("*")):
            jobs[f"{name}:{key.rpartition(':')[2]}"] = await redis.hgetall(key)
    for name, job in jobs.items():
        queue, _, job_id = name.partition(":")
        keys = Keys(queue, prefix)
        pending = await redis.smembers(f"{keys['pending']}:{job_id}")
        words = await redis.hgetall(f"{keys['children']}:{job_id}")
        if job["state"] == "waiting-children":
            assert job["waits"] == "1", name
            assert pending, f"{name} waits for nobody"
            culprits = [one for one in pending if words.get(one, "").startswith("x")]
            assert not culprits, f"{name} waits although {culprits} failed it"
        if job.get("waits"):
            assert job["state"] in ("waiting-children", "failed"), name
            for one in pending:
                assert one in jobs, f"{name} waits for {one}, which is gone"
                assert jobs[one]["parent"] == name
                ended = jobs[one]["state"] in ("completed", "failed")
                assert ended == (one in words), f"{name} has not heard of {one}"
    for kind in ("pending", "children"):
        for key in await redis.keys(f"{prefix}:{{*}}:{kind}:*"):
            name = f"{key.split('{')[1].split('}')[0]}:{key.rpartition(':')[2]}"
            assert name in jobs, f"{key} was left behind"
