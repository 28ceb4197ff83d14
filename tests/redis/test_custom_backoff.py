"""A wait that the user's own function decides: for all jobs of a worker, or by name for some."""

import sys

import pytest

from qlab import Backoff, Queue, Worker
from qlab.new_job import NewJob
from qlab.retry import check_waits
from tests.redis.queue_state import read_events, until

NOW = 1_900_000_000.0


async def fail(job):
    raise {"slow": TimeoutError, "bad": ValueError}.get(job.name, RuntimeError)(job.name)


def by_error(attempts_made, error):
    return 0.5 * attempts_made if isinstance(error, TimeoutError) else 2.0


def fail_in_a_sandbox(job):
    raise ValueError(job.name)


def three_hundredths(attempts_made, error):
    return 0.03


@pytest.fixture
async def wait_of(redis_url, prefix):
    """Run one attempt and return the milliseconds until the next one, and why the last one failed."""

    async def measure(name="bad", *, backoff=None, waits=None, attempts=9, handler=fail):
        clock = lambda: NOW  # noqa: E731
        async with Queue("q", redis_url, prefix=prefix, clock=clock) as queue:
            job = await queue.add(name, attempts=attempts, backoff=backoff)
            worker = Worker("q", handler, redis_url, prefix=prefix, clock=clock, backoff=waits)
            try:
                await worker.step()
                await until(lambda: worker._pump._ended)
                await worker.step()
            finally:
                await worker.close(timeout=1)
            due = await queue.connection.command("ZSCORE", queue.keys["delayed"], await place(queue, job))
            return None if due is None else float(due) - NOW * 1000, (await job.refresh()).failed_reason

    return measure


async def place(queue, job):
    return await queue.connection.command("HGET", queue.keys.job(job.id), "place") or "nowhere"


async def test_the_function_sees_the_attempt_and_the_error(wait_of):
    assert await wait_of("slow", waits=by_error) == (500, "TimeoutError: slow")
    assert await wait_of("bad", waits=by_error) == (2000, "ValueError: bad")


async def test_a_job_with_a_backoff_of_its_own_keeps_it(wait_of):
    assert (await wait_of(backoff=Backoff.fixed(7), waits=by_error))[0] == 7000


async def test_a_job_names_one_of_several_functions(wait_of):
    waits = {"bank": lambda made, error: 11, "mail": lambda made, error: 12}
    assert (await wait_of(backoff=Backoff.custom("mail"), waits=waits))[0] == 12_000
    assert (await wait_of(waits=waits))[0] is None  # at once, as without any backoff


async def test_a_plain_function_in_a_thread_is_retried_by_it_too(wait_of):
    assert (await wait_of(waits=by_error, handler=fail_in_a_sandbox))[0] == 2000


async def test_the_ceiling_of_the_job_holds(wait_of):
    forever = {"default": lambda made, error: 10**6}
    assert (await wait_of(waits=forever))[0] == 300_000
    assert (await wait_of(backoff=Backoff.custom(max_delay=4), waits=forever))[0] == 4000


@pytest.mark.parametrize("answer", [-1, float("nan"), float("inf"), "3", None, True])
async def test_an_answer_that_is_no_duration_is_named_and_the_job_waits_for_the_ceiling(wait_of, answer):
    wait, reason = await wait_of(waits=lambda made, error: answer)
    assert wait == 300_000
    assert reason.startswith("ValueError: bad (ValueError: the answer of backoff function 'default' must be ")
    assert repr(answer) in reason


async def test_a_function_that_fails_or_is_missing_is_named(wait_of):
    wait, reason = await wait_of(waits=lambda made, error: 1 / 0)
    assert (wait, "ZeroDivisionError: division by zero; waiting 300 s" in reason) == (300_000, True)
    wait, reason = await wait_of(backoff=Backoff.custom("bank", max_delay=5), waits=by_error)
    assert (wait, "this worker has no backoff function 'bank'" in reason) == (5000, True)


async def test_a_function_that_exits_ends_neither_the_worker_nor_the_job(wait_of):
    wait, reason = await wait_of(waits=lambda made, error: sys.exit(1))
    assert (wait, "SystemExit: 1; waiting 300 s" in reason) == (300_000, True)


async def test_the_last_attempt_asks_nobody(wait_of):
    asked = []
    wait, reason = await wait_of(attempts=1, waits=lambda *words: asked.append(words))
    assert (wait, reason, asked) == (None, "ValueError: bad", [])


async def test_every_retry_asks_again(queue, start_worker):
    asked = []

    def wait(attempts_made, error):
        asked.append((attempts_made, str(error)))
        return 0.01 * attempts_made

    await start_worker(fail, backoff=wait)
    job = await queue.add("x", attempts=4)
    await until(lambda: len(asked) == 3)
    await until(lambda: ended(job))
    assert asked == [(1, "x"), (2, "x"), (3, "x")]
    assert job.attempts_made == 4


async def test_it_works_in_a_sandbox(queue, start_worker, redis):
    await start_worker(fail_in_a_sandbox, sandbox=True, backoff=three_hundredths)
    job = await queue.add("x", attempts=3)
    await until(lambda: ended(job))
    assert (job.attempts_made, job.failed_reason) == (3, "ValueError: x")
    assert len(await read_events(redis, queue.keys, "delayed")) == 2


async def ended(job):
    return (await job.refresh()).state == "failed"


@pytest.mark.parametrize("bad", [3, "bank", {"bank": 7}, Backoff.fixed(1)])
def test_a_worker_refuses_what_is_no_function(bad):
    with pytest.raises(TypeError, match="must be a plain function of"):
        check_waits(bad)


def test_a_coroutine_function_is_refused():
    async def wait(attempts_made, error):
        return 1

    with pytest.raises(TypeError, match="plain function"):
        check_waits(wait)


def test_a_function_for_add_is_sent_to_the_worker():
    with pytest.raises(ValueError, match="a function of your own is an option of the Worker"):
        NewJob.make("a", None, 100, backoff=by_error)
    with pytest.raises(ValueError, match="backoff name"):
        Backoff.custom("a:b")


def test_the_stored_form_gives_the_same_rule_back():
    rule = Backoff.custom("bank", max_delay=12.5)
    assert Backoff.decode(rule.encode()) == rule
