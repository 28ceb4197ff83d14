"""One tenant with 50,000 jobs and one with a single job: what each way of sharing does to the single one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from qlab import Backoff, Job, Queue, Worker
from qlab.errors import DelayedError
from qlab.patterns.fair_lists import Entry, FairLists
from qlab.patterns.token_bucket import TokenBucket

MANY = [2_000, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]


class Ledger:
    """Starts of handlers, in order."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.changed = asyncio.Event()

    def start(self, tenant: str) -> None:
        self.starts.append(tenant)
        self.changed.set()

    async def until(self, condition: Callable[[], Any], limit: float = 300) -> None:
        async with asyncio.timeout(limit):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def make(redis_url: str, prefix: str) -> AsyncIterator[Any]:
    """Queues and started workers of this test; all closed and deleted at its end."""
    async with contextlib.AsyncExitStack() as stack:

        class Make:
            async def queue(self, name: str) -> Queue:
                return await stack.enter_async_context(Queue(name, redis_url, prefix=prefix))

            async def worker(self, name: str, handler: Any, concurrency: int) -> Worker:
                worker = Worker(name, handler, redis_url, prefix=prefix, concurrency=concurrency)
                stack.push_async_callback(worker.close, timeout=5)
                return await worker.start()

        yield Make()


def jobs(n: int, tenant: str, **options: Any) -> list[tuple[Any, ...]]:
    return [("send", tenant, options) for _ in range(n)]


@pytest.mark.parametrize("many", MANY)
async def test_one_fifo_makes_b_wait_for_all_of_a(make, ledger: Ledger, many: int) -> None:
    async def handler(job: Job) -> None:
        ledger.start(job.data)

    queue = await make.queue("mail")
    await queue.add_bulk(jobs(many, "a"))
    await queue.add("send", "b")
    await make.worker("mail", handler, 20)
    await ledger.until(lambda: "b" in ledger.starts)
    assert ledger.starts.index("b") >= many - 20


@pytest.mark.parametrize("many", MANY)
async def test_a_list_for_each_tenant_lets_b_start_at_once(
    make, ledger: Ledger, redis: Redis, prefix: str, many: int
) -> None:
    lists, queue = FairLists(redis, "mail", prefix=prefix), await make.queue("mail")

    async def handler(job: Job) -> None:
        ledger.start(job.data)
        await asyncio.sleep(0.005)

    async def publish(entry: Entry) -> None:
        await queue.add("send", entry.data, job_id=entry.job_id)

    stop = asyncio.Event()

    async def dispatcher() -> None:
        while not stop.is_set():
            waiting = (await queue.get_job_counts("waiting"))["waiting"]
            if not await lists.dispatch(publish, 20 - waiting):
                await asyncio.sleep(0.01)

    await lists.push("a", ["a"] * many)
    await make.worker("mail", handler, 20)
    dispatching = asyncio.create_task(dispatcher())
    await ledger.until(lambda: len(ledger.starts) >= 100)
    before, began = len(ledger.starts), asyncio.get_running_loop().time()
    await lists.push("b", ["b"])
    await ledger.until(lambda: "b" in ledger.starts)
    waited = asyncio.get_running_loop().time() - began
    stop.set()
    await dispatching
    # Before it: what was in the short queue and in hand, and what was moved in the turn that was under way.
    assert ledger.starts.index("b") - before <= 100
    assert waited < 6  # "a second or two", on a busy machine
    assert await lists.length("a") > 0


@pytest.mark.parametrize("many", MANY)
async def test_the_bucket_that_puts_off_makes_b_wait_for_one_pass_of_refusals(
    make, ledger: Ledger, redis: Redis, prefix: str, many: int
) -> None:
    """B waits for a trip of every job of A; the trips go on until A's last job has its token."""
    bucket = TokenBucket(redis, "mail", capacity=10, rate=10 / 60, prefix=prefix)
    granted: list[str] = []

    async def handler(job: Job) -> None:
        ledger.start(job.data)
        decision = await bucket.take(job.data)
        if not decision.granted:
            raise DelayedError(600)  # one pass only: nobody comes back while we count
        granted.append(job.data)

    queue = await make.queue("mail")
    await queue.add_bulk(jobs(many, "a", attempts=3))
    b = await queue.add("send", "b")
    await make.worker("mail", handler, 50)
    await b.wait_until_finished(timeout=500)
    trips = ledger.starts.index("b")
    assert trips >= many - 50
    refused = trips - granted.count("a")
    assert refused >= 0.9 * many - 100  # nearly every trip was for nothing
    counts = await queue.get_job_counts("completed", "failed")
    assert counts["failed"] == 0  # a refusal is no attempt


async def test_a_refused_job_is_the_same_job_later(make, redis: Redis, prefix: str) -> None:
    """Not a new one: id, age, options and attempts stay, and it is not counted as completed."""
    bucket = TokenBucket(redis, "mail", capacity=1, rate=5, prefix=prefix)

    async def handler(job: Job) -> int:
        decision = await bucket.take("a")
        if not decision.granted:
            raise DelayedError(decision.retry_after)
        return job.attempts_made

    queue = await make.queue("mail")
    added = [await queue.add("send", n, attempts=3, backoff=Backoff.fixed(9)) for n in range(4)]
    await make.worker("mail", handler, 4)
    assert [await job.wait_until_finished(timeout=60) for job in added] == [0, 0, 0, 0]
    assert (await queue.get_job_counts("completed"))["completed"] == 4
    for job in added:
        await job.refresh()
        assert (job.record.attempts, job.attempts_made) == (3, 1)


async def test_each_tenant_has_a_limit_of_its_own_whatever_the_others_do(make, redis, prefix: str) -> None:
    """The recipe for a limit by group: three tenants on one queue, two workers, one bucket each."""
    capacity, rate = 2, 5.0
    bucket = TokenBucket(redis, "mail", capacity=capacity, rate=rate, prefix=prefix)
    grants: dict[str, list[tuple[float, float]]] = {"a": [], "b": [], "c": []}
    now = asyncio.get_running_loop().time

    async def handler(job: Job) -> None:
        before = now()
        decision = await bucket.take(job.data)
        if not decision.granted:
            raise DelayedError(decision.retry_after)
        grants[job.data].append((before, now()))

    queue = await make.queue("mail")
    added = await queue.add_bulk([job for tenant in grants for job in jobs(6, tenant, attempts=1)])
    for _ in range(2):
        await make.worker("mail", handler, 4)
    await asyncio.gather(*(job.wait_until_finished(timeout=60) for job in added))
    for tenant, times in grants.items():
        assert len(times) == 6, tenant
        first = min(before for before, _ in times)
        for number, after in enumerate(sorted(after for _, after in times), 1):
            # Never earlier than its own bucket allows; a bucket for all three would need 3.2 s for the last.
            assert after - first >= (number - capacity) / rate - 0.01


async def test_at_most_the_rate_for_a_while_b_is_untouched(make, ledger: Ledger, redis, prefix: str) -> None:
    bucket = TokenBucket(redis, "mail", capacity=3, rate=1 / 30, prefix=prefix)

    async def handler(job: Job) -> None:
        decision = await bucket.take(job.data)
        if not decision.granted:
            raise DelayedError(decision.retry_after)
        ledger.start(job.data)

    queue = await make.queue("mail")
    await queue.add_bulk(jobs(100, "a"))
    b = await queue.add("send", "b")
    await make.worker("mail", handler, 10)
    await b.wait_until_finished(timeout=60)
    assert (await queue.get_job_counts("delayed"))["delayed"] >= 90
    assert ledger.starts.count("a") <= 5  # 3 at once, and one each 30 s of a busy machine


async def test_queues_by_class_critical_starts_at_once_beside_5000_bulk_jobs(make, ledger: Ledger) -> None:
    async def handler(job: Job) -> None:
        ledger.start(job.data)
        await asyncio.sleep(0.002)

    critical, bulk = await make.queue("mail-critical"), await make.queue("mail-bulk")
    await bulk.add_bulk(jobs(5_000, "bulk"))
    for name, concurrency in (("mail-critical", 20), ("mail-default", 10), ("mail-bulk", 2)):
        await make.worker(name, handler, concurrency)
    await ledger.until(lambda: len(ledger.starts) >= 10)
    before = len(ledger.starts)
    await critical.add("otp", "critical")
    await ledger.until(lambda: "critical" in ledger.starts)
    assert ledger.starts.index("critical") - before <= 200
    assert (await bulk.get_job_counts("waiting"))["waiting"] > 0


async def test_priorities_starve_what_is_less_urgent(make, ledger: Ledger) -> None:
    """As long as urgent work keeps coming, the other never starts: not late, never."""
    queue = await make.queue("mail")

    async def handler(job: Job) -> None:
        ledger.start(job.data)
        if job.data == "urgent" and len(ledger.starts) < 300:
            await queue.add("send", "urgent", priority=1)

    await queue.add("send", "patient", priority=10)
    await queue.add_bulk(jobs(2, "urgent", priority=1))
    await make.worker("mail", handler, 1)
    await ledger.until(lambda: "patient" in ledger.starts)
    assert ledger.starts.index("patient") >= 300
