"""H30: dead letters run again, each once, from nothing, whoever replays them and however often."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap

import pytest

from qlab import JobFailed, JobGone, JobStateError
from tests.redis.queue_state import members, read_events, until

REPLAY = textwrap.dedent("""
    import asyncio, sys
    from qlab import JobGone, JobStateError, Queue

    async def main(url, prefix, most):
        async with Queue("q", url, prefix=prefix) as queue:
            ids = await queue.connection.command("ZRANGE", queue.keys["failed"], 0, -1)
            print("read", flush=True)
            sys.stdin.readline()
            for job_id in ids[:int(most)]:
                job = await queue.get_job(job_id)
                try:
                    await job.retry()
                except JobStateError:
                    pass
            print("done", flush=True)
            sys.stdin.readline()

    asyncio.run(main(*sys.argv[1:]))
""")


class Replayer:
    """Another process that replays what it finds in the failed set, once it is told to go on."""

    def __init__(self, redis_url, prefix, most=1000):
        self.process = subprocess.Popen(
            [sys.executable, "-c", REPLAY, redis_url, prefix, str(most)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    async def said(self, word):
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), 20)
        assert line.strip() == word

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_replayer(redis_url, prefix):
    started = []

    def start(**options):
        started.append(Replayer(redis_url, prefix, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


async def a_hundred_dead_letters(queue, start_worker):
    """50 by attempts (3 of 3), 50 by stalls beyond the limit; a few with priority, a few with a delay."""
    fixed = asyncio.Event()
    starts = []

    async def handler(job):
        if not fixed.is_set():
            raise RuntimeError("broken")
        starts.append((job.id, job.attempts_made, job.stalled_counter))

    worker = await start_worker(handler, concurrency=10)
    options = [{}, {"priority": 5}, {"delay": 0.05}]
    by_attempts = await queue.add_bulk([("a", n, {"attempts": 3, **options[n % 3]}) for n in range(50)])
    await until(lambda: _failed(queue, 50))
    await worker.close()
    by_stalls = await queue.add_bulk([("a", n, {"attempts": 3, "priority": 7}) for n in range(50)])
    for trip, max_stalled in ((1, 2), (2, 1)):
        taken = await queue.connection.call(
            "settle_and_take", token="gone", worker="gone", lock=1, trip=trip, want=50, count=0
        )
        assert len(json.loads(taken[2])) == 50
        await asyncio.sleep(0.01)  # the leases of 1 ms are over
        assert len(await queue.connection.call("recover", max_stalled=max_stalled)) == 50
    assert await _failed(queue, 100)
    return by_attempts + by_stalls, handler, fixed, starts


async def _failed(queue, total):
    return (await queue.get_job_counts("failed"))["failed"] == total


async def _completed(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def sample(queue, totals):
    while True:
        totals.add(sum((await queue.get_job_counts()).values()))
        await asyncio.sleep(0.002)


async def test_h30_two_processes_replay_everything_at_once_one_dies_and_each_job_starts_once(
    queue, start_worker, start_replayer
):
    """A third one comes late, with a list from before: it finds jobs that have completed meanwhile."""
    jobs, handler, fixed, starts = await a_hundred_dead_letters(queue, start_worker)
    fixed.set()
    totals = set()
    sampling = asyncio.create_task(sample(queue, totals))
    await start_worker(handler, concurrency=10)
    both = [start_replayer(), start_replayer()]
    for one in both:
        await one.said("read")
    for one in both:
        one.go_on()
    await until(lambda: len(starts) >= 20)
    both[0].process.send_signal(signal.SIGKILL)
    await both[1].said("done")
    await until(lambda: _completed(queue, 100))
    again = start_replayer()
    await again.said("read")
    again.go_on()
    await again.said("done")
    sampling.cancel()
    assert totals == {100}
    assert sorted(job_id for job_id, _, _ in starts) == sorted(job.id for job in jobs)
    assert {(attempts, stalls) for _, attempts, stalls in starts} == {(0, 0)}


async def test_h30_a_replay_that_was_killed_in_the_middle_is_repeated(queue, start_worker, start_replayer):
    jobs, handler, fixed, starts = await a_hundred_dead_letters(queue, start_worker)
    fixed.set()
    first = start_replayer(most=40)
    await first.said("read")
    first.go_on()
    await first.said("done")
    first.process.send_signal(signal.SIGKILL)
    assert await _failed(queue, 60)
    second = start_replayer()
    await second.said("read")
    second.go_on()
    await second.said("done")
    assert await _failed(queue, 0)
    for job in jobs:
        await job.refresh()
        assert job.state == ("waiting" if job.record.priority is None else "prioritized")
        assert (job.attempts_made, job.stalled_counter, job.record.replays) == (0, 0, 1)
    await start_worker(handler, concurrency=10)
    await until(lambda: _completed(queue, 100))
    assert len({job_id for job_id, _, _ in starts}) == len(starts) == 100


async def test_h30_a_handle_from_before_cannot_run_a_job_again_that_was_replayed_meanwhile(
    queue, start_worker
):
    broken = True

    async def handler(job):
        if broken:
            raise RuntimeError("broken")
        return "done"

    await start_worker(handler)
    job = await queue.add("a")
    with pytest.raises(JobFailed):
        await job.wait_until_finished(5)
    mine, yours = await queue.get_job(job.id), await queue.get_job(job.id)
    broken = False
    await mine.retry()
    assert await mine.wait_until_finished(5) == "done"
    with pytest.raises(JobStateError, match=f"job {job.id} was replayed meanwhile"):
        await yours.retry()
    assert ((await job.refresh()).state, job.claim, job.record.replays) == ("completed", 2, 1)
    with pytest.raises(JobStateError, match="is completed: only a failed job"):
        await (await queue.get_job(job.id)).retry()
    await (await queue.get_job(job.id)).retry("completed")
    await until(lambda: _claimed(job, 3))
    await until(lambda: _completed(queue, 1))


async def _claimed(job, claim):
    return (await job.refresh()).claim == claim


async def test_h30_one_handle_may_replay_its_job_after_each_failure(queue, start_worker, redis):
    async def handler(job):
        raise RuntimeError("still broken")

    await start_worker(handler)
    job = await queue.add("a", attempts=3)
    for _ in range(3):
        with pytest.raises(JobFailed):
            await job.wait_until_finished(5)
        await until(lambda: _failed(queue, 1))
        await job.retry()
    await until(lambda: _failed(queue, 1))
    assert ((await job.refresh()).attempts_made, job.claim, job.record.replays) == (3, 12, 3)
    assert len(await read_events(redis, queue.keys, "failed")) == 4


async def test_h30_a_reused_id_is_refused_and_the_newer_job_is_left_alone(queue, start_worker, redis):
    async def handler(job):
        raise RuntimeError("broken")

    worker = await start_worker(handler)
    old = [await queue.add("a", "old", job_id=f"x{n}") for n in range(2)]
    for job in old:
        with pytest.raises(JobFailed):
            await job.wait_until_finished(5)
    assert (await queue.add("a", "refused while the dead letter is kept", job_id="x0")).duplicate
    await worker.close()
    dead = [await queue.get_job(job.id) for job in old]
    for job in dead:
        await job.remove()
    new = [await queue.add("a", "new", job_id="x0"), await queue.add("a", "new", job_id="x1", delay=60)]
    before = [await redis.hgetall(queue.keys.job(job.id)) for job in new]
    for job in dead:
        with pytest.raises(JobGone, match=f"job {job.id} is gone"):
            await job.retry()
    assert [await redis.hgetall(queue.keys.job(job.id)) for job in new] == before
    assert (await members(redis, queue.keys))["waiting"] == ["x0"]


async def test_h30_a_replay_does_not_wait_for_the_first_delay_again(queue, start_worker):
    failing = True

    async def handler(job):
        if failing:
            raise RuntimeError("broken")
        return "done"

    await start_worker(handler)
    job = await queue.add("a", delay=60)
    await job.promote()
    with pytest.raises(JobFailed):
        await job.wait_until_finished(5)
    failing = False
    await job.retry()
    await until(lambda: _completed(queue, 1), limit=5)
