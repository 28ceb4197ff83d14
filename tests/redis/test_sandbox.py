"""sandbox=True: a handler may block, crash or be killed; only its own job notices."""

import asyncio
import os
import signal
import sys
import types

import pytest

from qlab import JobFailed, Worker
from tests.redis import sandbox_handlers as handlers
from tests.redis.queue_state import until

FAST = {"lock_duration": 0.4, "stalled_interval": 0.2}


@pytest.fixture
async def sandbox(start_worker):
    return await start_worker(handlers.handle, sandbox=True, concurrency=2, **FAST)


async def test_the_handler_runs_in_another_process_that_is_kept(queue, sandbox):
    results = [await (await queue.add("a", n)).wait_until_finished(10) for n in range(3)]
    assert [one["data"] for one in results] == [0, 1, 2]
    assert os.getpid() not in {one["pid"] for one in results}
    assert len({one["pid"] for one in results}) <= 2


async def test_h02_a_handler_that_blocks_keeps_its_lock(queue, sandbox):
    job = await queue.add("block", 1.0)
    assert (await job.wait_until_finished(10))["data"] == 1.0
    assert ((await job.refresh()).stalled_counter, job.claim) == (0, 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("die", "SandboxDied: the process of the job ended by signal 9"),
        ("exit", "SandboxDied: the process of the job ended with exit code 3"),
        ("orphan", "SandboxDied: the process of the job ended with exit code 3"),
        ("odd", "OddError: 7"),
    ],
)
async def test_h07_a_death_or_an_odd_error_fails_that_job_only(queue, sandbox, name, reason):
    bad, good = await queue.add(name, 10, attempts=2), await queue.add("block", 0.3)
    with pytest.raises(JobFailed, match=reason):
        await bad.wait_until_finished(10)
    assert (await good.wait_until_finished(10))["data"] == 0.3
    assert (await bad.refresh()).attempts_made == 2
    assert sandbox.healthy


async def test_h07_a_child_that_is_killed_between_two_jobs_fails_neither(queue, sandbox):
    """As the kernel does when memory is short: the next job gets a new process and all its attempts."""
    first = await (await queue.add("a", 1)).wait_until_finished(10)
    os.kill(first["pid"], signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, first["pid"], os.WEXITED | os.WNOWAIT)
    second = await (await queue.add("a", 2)).wait_until_finished(10)
    assert (second["data"], second["pid"] != first["pid"]) == (2, True)


async def test_an_unrecoverable_error_is_known_across_the_processes(queue, sandbox):
    job = await queue.add("final", attempts=5)
    with pytest.raises(JobFailed, match="GoneBad: malformed"):
        await job.wait_until_finished(10)
    assert (await job.refresh()).attempts_made == 1
    assert "in handle" in job.record.stacktrace


async def test_a_job_can_put_itself_off_from_a_sandbox(queue, sandbox):
    job = await queue.add("later", 1)
    assert (await job.wait_until_finished(10))["data"] == 1
    assert ((await job.refresh()).attempts_made, job.claim) == (1, 2)


async def test_a_time_limit_ends_even_a_loop_that_never_yields(queue, sandbox):
    job = await queue.add("block", 60, timeout=0.3)
    with pytest.raises(JobFailed, match=r"longer than its limit of 0\.3 s"):
        await job.wait_until_finished(10)


async def test_what_needs_the_server_is_refused_in_a_sandbox(queue, sandbox):
    with pytest.raises(JobFailed, match="a job in a sandbox has its data only"):
        await (await queue.add("server")).wait_until_finished(10)


async def test_the_limit_of_an_attempt_begins_when_its_process_has_started(queue, sandbox):
    """A new process takes some tenths of a second, this attempt a few milliseconds."""
    job = await queue.add("a", 1, timeout=0.1)
    assert (await job.wait_until_finished(20))["data"] == 1


async def test_a_plain_handler_may_return_what_is_awaited(queue, sandbox):
    """As in a thread: a wrapper around an `async def` is a plain function."""
    assert await (await queue.add("awaitable")).wait_until_finished(10) != os.getpid()


async def test_a_handler_that_its_process_cannot_load_is_named(queue, start_worker, monkeypatch):
    """It was importable here, but is not there: the module was put in place by hand."""
    module = types.ModuleType("made_by_hand")
    exec("def handler(job): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    await start_worker(module.handler, sandbox=True)
    with pytest.raises(JobFailed, match=r"SandboxDied: .* cannot load the handler: ModuleNotFoundError: "):
        await (await queue.add("a")).wait_until_finished(10)


async def test_async_handlers_run_in_a_sandbox_too(queue, start_worker):
    await start_worker(handlers.handle_async, sandbox=True)
    assert await (await queue.add("a")).wait_until_finished(10) != os.getpid()


async def test_a_close_with_a_limit_kills_the_child_and_gives_the_job_back(queue, start_worker):
    worker = await start_worker(handlers.handle, sandbox=True)
    job = await queue.add("block", 60)
    await until(lambda: _active(queue))
    pids = [child._process.pid for child in worker._sandbox._all]
    await asyncio.wait_for(worker.close(timeout=0.1), 4)
    assert ((await job.refresh()).state, job.attempts_made) == ("waiting", 0)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def _active(queue):
    return (await queue.get_job_counts("active"))["active"]


def test_a_handler_that_no_other_process_can_import_is_refused():
    with pytest.raises(TypeError, match="sandbox=True needs a handler"):
        Worker("q", lambda job: None, sandbox=True)
