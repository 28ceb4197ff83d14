"""The lease: renewal, loss, recovery in one pass, counter and limit. The test holds the clock."""

import asyncio

import pytest

from qlab import JobFailed, LockLost, Queue, Worker
from tests.redis.queue_state import check_invariants, members, read_events, until


class Clock:
    """Seconds that only move when the test says so."""

    def __init__(self):
        self.now = 1_900_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
async def clock():
    return Clock()


@pytest.fixture
async def timed(redis_url, prefix, clock, redis):
    """A queue and a function that makes workers which are driven by hand, all on the test's clock."""
    workers = []

    def worker(name, handler, **options):
        one = Worker("q", handler, redis_url, prefix=prefix, clock=clock, name=name, lock_duration=2.0,
                     stalled_interval=1.0, **options)  # fmt: skip
        workers.append(one)
        return one

    async with Queue("q", redis_url, prefix=prefix, clock=clock) as queue:
        yield queue, worker
        for one in workers:
            await one.close(timeout=0)
        await check_invariants(redis, queue.keys)


def gate():
    """A handler that waits to be let go, and the event that lets it go."""
    release = asyncio.Event()

    async def handler(job):
        await release.wait()
        return "done"

    return handler, release


async def test_the_lease_is_a_deadline_in_the_active_set(timed, redis, clock):
    queue, make = timed
    handler, _ = gate()
    job = await queue.add("a")
    assert await make("A", handler).step() == 1
    assert await redis.zscore(queue.keys["active"], job.id) == (clock.now + 2) * 1000


async def test_a_renewed_job_outlives_its_lock_and_runs_once(timed, redis, clock):
    """The chapter's 7 s job under a 2 s lock, renewed every second."""
    queue, make = timed
    handler, release = gate()
    job = await queue.add("a")
    a, b = make("A", handler), make("B", handler)
    assert a.lock_renew_time == 1.0
    await a.step()
    await b.step()
    for _ in range(7):
        clock.now += 1
        await a._leases.renew()
        assert await b._leases.recover() == 0
    release.set()
    await until(lambda: a._pump._ended)
    await a.step()
    await job.refresh()
    assert (job.state, job.claim, job.stalled_counter) == ("completed", 1, 0)


async def test_a_job_is_recovered_once_its_lease_has_run_out_and_not_before(timed, clock):
    queue, make = timed
    handler, _ = gate()
    job = await queue.add("a")
    a, b = make("A", handler), make("B", handler)
    await a.step()
    await b.step()
    clock.now += 1.999
    assert await b._leases.recover() == 0
    clock.now += 0.001
    assert await b._leases.recover() == 1
    assert (await job.refresh()).stalled_counter == 1
    assert job.state == "waiting"


async def test_h01_a_stale_worker_changes_nothing_and_is_told(timed, redis, clock):
    queue, make = timed
    handler_a, release_a = gate()
    handler_b, release_b = gate()
    job = await queue.add("a")
    a, b = make("A", handler_a), make("B", handler_b)
    await a.step()
    held = next(iter(a._pump.held.values()))
    clock.now += 3
    await b.step()
    await b._leases.recover()
    assert await b.step() == 1
    for write in (held.update_progress, held.log, held.update_data):
        with pytest.raises(LockLost, match=f"lock lost on job {job.id}: worker A"):
            await write("from A")
    release_a.set()
    await until(lambda: a._pump._ended)
    await a.step()
    assert held.lock_lost
    release_b.set()
    await until(lambda: b._pump._ended)
    await b.step()
    await job.refresh()
    assert (job.state, job.return_value, job.record.worker) == ("completed", "done", "B")
    assert (job.attempts_made, job.stalled_counter, job.claim, job.progress) == (1, 1, 2, None)
    assert (job.failed_reason, job.data, job.log_lines) == (None, None, [])
    assert "from A" not in str(await redis.hgetall(queue.keys.job(job.id)))
    events = await read_events(redis, queue.keys, "completed", "failed", "lock-lost")
    assert [(one["event"], one["worker"], one["claim"]) for one in events] == [
        *[("lock-lost", "A", "1")] * 4, ("completed", "B", "2"),
    ]  # fmt: skip


async def test_h01_the_error_of_a_stale_worker_appears_nowhere(timed, redis, clock):
    queue, make = timed
    release = asyncio.Event()

    async def raises(job):
        await release.wait()
        raise ValueError("from A")

    handler_b, release_b = gate()
    job = await queue.add("a", attempts=3)
    a, b = make("A", raises), make("B", handler_b)
    await a.step()
    clock.now += 3
    await b.step()
    await b._leases.recover()
    await b.step()
    release.set()
    await until(lambda: a._pump._ended)
    await a.step()
    release_b.set()
    await until(lambda: b._pump._ended)
    await b.step()
    assert "from A" not in str(await redis.hgetall(queue.keys.job(job.id)))
    assert (await job.refresh()).attempts_made == 1


async def test_a_job_that_stalls_more_often_than_allowed_fails(timed, clock, redis):
    queue, make = timed
    handler, _ = gate()
    job = await queue.add("a", attempts=5)
    a, b, checker = make("A", handler), make("B", handler), make("C", handler)
    checker._prepare()
    for worker in (a, b):
        await worker.step()
        clock.now += 3
        await checker._leases.recover()
    with pytest.raises(JobFailed, match="job stalled more than allowable limit"):
        await job.wait_until_finished(5)
    await job.refresh()
    assert (job.stalled_counter, job.attempts_made, job.claim) == (2, 0, 2)
    assert (await members(redis, queue.keys))["failed"] == [job.id]


async def test_recovered_jobs_go_to_the_head_in_their_old_order(timed, clock, redis):
    queue, make = timed
    handler, _ = gate()
    jobs = [await queue.add("a", n) for n in range(4)]
    a, b = make("A", handler, concurrency=2), make("B", handler)
    await a.step()
    clock.now += 3
    await b.step()
    await b._leases.recover()
    waiting = (await members(redis, queue.keys))["waiting"]
    assert waiting == [jobs[0].id, jobs[1].id, jobs[3].id]


async def test_a_worker_that_wakes_up_before_anybody_looked_keeps_its_job(timed, clock):
    """Nobody else has the job, so the late renewal is safe: no needless second run."""
    queue, make = timed
    handler, release = gate()
    job = await queue.add("a")
    a = make("A", handler)
    await a.step()
    clock.now += 3
    assert await a._leases.recover() == 0
    release.set()
    await until(lambda: a._pump._ended)
    await a.step()
    assert ((await job.refresh()).state, job.stalled_counter) == ("completed", 0)


async def test_progress_does_not_renew_the_lease(timed, redis, clock):
    queue, make = timed
    handler, _ = gate()
    job = await queue.add("a")
    a = make("A", handler)
    await a.step()
    before = await redis.zscore(queue.keys["active"], job.id)
    clock.now += 1
    await next(iter(a._pump.held.values())).update_progress(0.5)
    assert await redis.zscore(queue.keys["active"], job.id) == before


async def test_a_lost_lease_is_not_taken_back_and_the_handler_can_see_it(timed, clock):
    queue, make = timed
    handler, _ = gate()
    await queue.add("a")
    a, b = make("A", handler), make("B", handler)
    await a.step()
    held = next(iter(a._pump.held.values()))
    clock.now += 3
    await b.step()
    await b._leases.recover()
    await a._leases.renew()
    assert held.lock_lost
    assert await b.step() == 1


async def test_a_worker_lets_its_jobs_end_before_one_that_must_be_alone(queue, redis, start_worker):
    """Free slots or not: the suspect is given back uncounted, and nothing is taken past it or beside it."""
    order, release = [], asyncio.Event()

    async def handler(job):
        order.append(f"start {job.name}")
        await (release.wait() if job.name == "long" else asyncio.sleep(0))
        order.append(f"end {job.name}")

    await start_worker(handler, concurrency=5)
    await queue.add("long")
    await until(lambda: order)
    await queue.pause()
    suspect, *others = await queue.add_bulk([("suspect", None), ("other", 1), ("other", 2)])
    await redis.hset(queue.keys.job(suspect.id), "alone", 1)
    await queue.resume()
    await until(lambda: given_back(suspect))
    assert order == ["start long"]
    release.set()
    await asyncio.gather(*(job.wait_until_finished(10) for job in [suspect, *others]))
    assert order[:4] == ["start long", "end long", "start suspect", "end suspect"]
    assert sorted(order[4:]) == ["end other", "end other", "start other", "start other"]
    assert ((await suspect.refresh()).attempts_made, suspect.stalled_counter, suspect.claim) == (1, 0, 2)


async def given_back(job):
    return (await job.refresh()).claim == 1 and job.state == "waiting"


async def test_a_replay_may_run_beside_others_again(queue, redis):
    job = await queue.add("a")
    await queue.connection.call("settle_and_take", token="x", worker="x", lock=1, trip=1, want=1, count=0)
    await until(lambda: recovered(queue, 1))
    assert await redis.hget(queue.keys.job(job.id), "alone") == "1"
    await queue.connection.call("settle_and_take", token="x", worker="x", lock=1, trip=2, want=1, count=0)
    await until(lambda: recovered(queue, 1))
    await (await job.refresh()).retry()
    assert await redis.hexists(queue.keys.job(job.id), "alone") == 0


async def recovered(queue, max_stalled):
    return await queue.connection.call("recover", max_stalled=max_stalled)
