"""H10: producers and workers whose clocks are minutes off; only the server's clock counts."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.faults.field import field_worker, starts
from tests.redis.queue_state import read_events, until

SLACK = 1500
SKEWS = [300, -300]

PRODUCER = textwrap.dedent("""
    import asyncio, json, sys, time
    real, skew = time.time, float(sys.argv[1])
    time.time = lambda: real() + skew
    from qlab import Backoff, Queue

    async def main():
        async with Queue("q") as queue:
            name, data, options = json.loads(sys.argv[2])
            if "backoff" in options:
                options["backoff"] = Backoff.fixed(options["backoff"])
            if name == "limit":
                await queue.rate_limit(data)
            else:
                await queue.add(name, data, **options)
            assert abs(time.time() - real() - skew) < 1

    asyncio.run(main())
""")


@pytest.fixture
def produce(redis_url, prefix):
    """Add a job from a process whose clock is `skew` seconds off."""

    async def run(skew, name, data=None, **options):
        words = [sys.executable, "-c", PRODUCER, str(skew), json.dumps([name, data, options])]
        environment = os.environ | {"QLAB_REDIS_URL": redis_url, "QLAB_PREFIX": prefix}
        done = await asyncio.to_thread(
            subprocess.run, words, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr

    return run


async def all_done(queue, total):
    return (await queue.get_job_counts("completed"))["completed"] == total


async def connected(start_process, **options):
    worker = field_worker(start_process, "A", **options)
    await until(lambda: "connected" in worker.output(), limit=20)
    return worker


@pytest.mark.parametrize(("producer", "worker"), [(300, 0), (-300, 0), (0, 300), (0, -300)])
async def test_h10_a_delay_and_a_backoff_are_measured_by_the_server(
    queue, ledger, start_process, produce, redis, producer, worker
):
    await connected(start_process, skew=worker, concurrency=2)
    await asyncio.gather(
        produce(producer, "sleep", 0, job_id="delayed", delay=2),
        produce(producer, "fail-once", 0, job_id="retried", attempts=2, backoff=2),
    )
    await until(lambda: all_done(queue, 2), limit=20)
    added = {one["job"]: int(one["at"]) for one in await read_events(redis, queue.keys, "added")}
    (delayed,) = await starts(ledger, "delayed")
    assert 2000 <= delayed.at - added["delayed"] <= 2000 + 500 + SLACK
    first, second = await starts(ledger, "retried")
    assert first.at - added["retried"] <= 500 + SLACK
    assert 2000 <= second.at - first.at <= 2000 + 500 + SLACK


@pytest.mark.parametrize("skew", SKEWS)
async def test_h10_a_rate_limit_is_measured_by_the_server(queue, ledger, start_process, produce, skew):
    """Set by a producer and by a handler, each with a wrong clock: neither is cut or drawn out."""
    await connected(start_process, skew=-skew)
    before = await now(queue)
    await produce(skew, "limit", 1)
    job = await queue.add("limit-once", 0.5)
    await until(lambda: all_done(queue, 1), limit=20)
    first, second = await starts(ledger, job.id)
    after_limit = int(await queue.connection.command("HGET", queue.keys["meta"], "limited_until"))
    assert first.at - before >= 1000
    assert first.at - job.record.added_at <= 1000 + 500 + SLACK
    assert 500 <= second.at - first.at <= 500 + 500 + SLACK
    assert second.at >= after_limit


async def test_h10_a_limiter_counts_in_windows_of_the_server(queue, start_process, redis):
    """Two workers, ten minutes apart, share 5 starts a second."""
    workers = [
        field_worker(start_process, name, skew=skew, limit=5) for name, skew in zip("AB", SKEWS, strict=True)
    ]
    for worker in workers:
        await until(lambda worker=worker: "connected" in worker.output(), limit=20)
    await queue.add_bulk([("sleep", 0) for _ in range(16)])
    await until(lambda: all_done(queue, 16), limit=20)
    times = [int(one["at"]) for one in await read_events(redis, queue.keys, "active")]
    windows = []
    for at in sorted(times):
        if not windows or at >= windows[-1][0] + 1000:
            windows.append([])
        windows[-1].append(at)
    assert [len(window) for window in windows] == [5, 5, 5, 1]
    assert times[-1] - times[0] <= 3000 + 500 + SLACK


async def now(queue):
    seconds, micros = await queue.connection.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


@pytest.mark.parametrize("skew", SKEWS)
async def test_h10_a_lease_is_measured_by_the_server(queue, ledger, start_process, redis, skew):
    """A worker with a wrong clock keeps a job that outlives its lock; a dead one's is given out in time."""
    a = await connected(start_process, skew=skew, lock=0.6, renew=0.2, check=0.3)
    job = await queue.add("sleep", 2)
    await until(lambda: _started(ledger, 1))
    b = field_worker(start_process, "B", skew=-skew, lock=0.6, renew=0.2, check=0.3)
    assert await job.wait_until_finished(10) == "A"
    assert ((await job.refresh()).stalled_counter, job.claim) == (0, 1)
    lost = await queue.add("sleep", 60)
    await until(lambda: _started(ledger, 2))
    {"A": a, "B": b}[(await starts(ledger, lost.id))[0].name].kill()
    killed = await now(queue)
    await until(lambda: _started(ledger, 3))
    assert (await starts(ledger, lost.id))[1].at - killed <= 900 + SLACK


async def _started(ledger, count):
    return len(await starts(ledger)) >= count
