"""Workers of the PostgreSQL queue: many at once, killed, stopped, cancelled."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from qlab import Backoff, UnrecoverableError
from qlab.postgres import pg_queue
from qlab.postgres.pg_queue import PgJob
from qlab.postgres.pg_worker import COMPLETED, PgWorker
from tests.postgres.conftest import Pool, nothing_left_behind

CHILD = """
import asyncio, sys
from psycopg_pool import AsyncConnectionPool
from qlab.postgres.pg_worker import PgWorker
async def main():
    async with AsyncConnectionPool(sys.argv[1], min_size=1, max_size=1, open=False) as pool:
        async def handler(job):
            print("started", flush=True)
            await asyncio.sleep(600 if sys.argv[2] == "kill" else 0)
            await asyncio.to_thread(sys.stdin.readline)
            return "A"
        async with PgWorker(pool, "q", handler, lock_duration=1, poll=0.02, name="A"):
            await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
async def jobs(pool: Pool) -> Pool:
    async with pool.connection() as conn:
        await pg_queue.install(conn)
        await conn.execute("CREATE TABLE effect (id bigint)")
    return pool


async def add(pool: Pool, n: int = 1, **options: Any) -> None:
    async with pool.connection() as conn:
        for i in range(n):
            await pg_queue.enqueue(conn, "q", "n", i, **options)


async def until(pool: Pool, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    async with asyncio.timeout(90):
        while not condition(found := await pg_queue.counts(pool, "q")):
            await asyncio.sleep(0.02)
    return found


async def row(pool: Pool, columns: str) -> tuple[Any, ...] | None:
    async with pool.connection() as conn:
        return await (await conn.execute(f"SELECT {columns} FROM pg_job".encode())).fetchone()


async def test_each_job_once_by_many_workers(jobs: Pool) -> None:
    seen: Counter[int] = Counter()

    async def handler(job: PgJob) -> int:
        seen[job.id] += 1
        await asyncio.sleep(0.001)
        return job.data * 2

    await add(jobs, 300)
    workers = [await PgWorker(jobs, "q", handler, concurrency=5, name=f"w{n}").start() for n in range(4)]
    await until(jobs, lambda found: found["completed"] == 300)
    await asyncio.gather(*(worker.close() for worker in workers))
    assert set(seen.values()) == {1}
    assert len(seen) == 300
    await nothing_left_behind(jobs)


async def test_a_pool_of_one_serves_ten_handlers_and_an_effect_in_the_same_transaction(jobs, pg_dsn) -> None:
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=1, timeout=60, open=False) as single:

        async def handler(job: PgJob) -> object:
            await asyncio.sleep(0.01)
            async with single.connection() as conn, conn.transaction():
                await conn.execute("INSERT INTO effect VALUES (%s)", [job.id])
                await pg_queue.complete(conn, job)
            return COMPLETED

        await add(jobs, 50)
        async with PgWorker(single, "q", handler, concurrency=10, poll=0.02):
            await until(jobs, lambda found: found["completed"] == 50)
    async with jobs.connection() as conn:
        cursor = await conn.execute("SELECT count(*), count(DISTINCT id) FROM effect")
        assert await cursor.fetchone() == (50, 50)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_dead_or_stopped_workers_job_is_done_by_another(jobs: Pool, pg_dsn: str, how: str) -> None:
    await add(jobs, 1, attempts=1)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, pg_dsn, how,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert await child.stdout.readline() == b"started\n"
    child.send_signal(signal.SIGKILL if how == "kill" else signal.SIGSTOP)

    async def handler(job: PgJob) -> str:
        return "B"

    async with PgWorker(jobs, "q", handler, lock_duration=1, poll=0.02, name="B"):
        await until(jobs, lambda found: found["completed"] == 1)
    if how == "stop":
        assert child.stdin is not None
        child.send_signal(signal.SIGCONT)
        child.stdin.write(b"\n")
        assert child.stderr is not None
        while b"lost" not in (line := await child.stderr.readline()):  # its result comes too late
            assert line, "it ended without a word"
        child.kill()
    await child.wait()
    assert await row(jobs, "result, stalled, attempts_made, claim") == ("B", 1, 1, 2)


async def test_a_long_job_keeps_its_lease(jobs: Pool) -> None:
    starts: list[int] = []

    async def handler(job: PgJob) -> None:
        starts.append(job.claim)
        await asyncio.sleep(7)

    await add(jobs)
    options: dict[str, Any] = {"lock_duration": 3, "poll": 0.02}
    async with PgWorker(jobs, "q", handler, **options), PgWorker(jobs, "q", handler, **options):
        await until(jobs, lambda found: found["completed"] == 1)
    assert starts == [1]


async def test_failures_retry_and_end(jobs: Pool) -> None:
    kinds: Counter[int] = Counter()

    async def handler(job: PgJob) -> object:
        kinds[job.data] += 1
        if job.data == 0:
            raise RuntimeError("again")
        if job.data == 1:
            raise UnrecoverableError("never")
        if job.data == 2:
            return {1, 2}  # not JSON: the same next time
        raise asyncio.CancelledError

    await add(jobs, 4, attempts=3)
    async with PgWorker(jobs, "q", handler, concurrency=4, poll=0.02, backoff=Backoff.fixed(0.02)):
        await until(jobs, lambda found: found["failed"] == 4)
    assert kinds == {0: 3, 1: 1, 2: 1, 3: 3}


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def exits() -> None:
    raise SystemExit(0)


async def interrupts() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [cancels_itself, exits, interrupts])
async def test_what_would_end_its_task_or_process_ends_the_job_only(
    jobs: Pool, end: Callable[[], Awaitable[None]]
) -> None:
    """Not given back for ever either: it is a failed attempt as any other."""
    starts: list[int] = []

    async def handler(job: PgJob) -> str:
        starts.append(job.data)
        if job.data == 0:
            await end()
        return "fine"

    await add(jobs, 2, attempts=2)
    async with PgWorker(jobs, "q", handler, poll=0.02):
        await until(jobs, lambda found: found["failed"] == 1 and found["completed"] == 1)
    assert sorted(starts) == [0, 0, 1]


async def test_a_row_that_cannot_be_decoded_fails_alone(jobs: Pool) -> None:
    async def handler(job: PgJob) -> object:
        return job.data

    async with jobs.connection() as conn:
        await conn.execute(
            "INSERT INTO pg_job (queue, name, data, run_at, max_attempts) VALUES ('q', 'n', %s, now(), 1)",
            ["[" * 3000 + "]" * 3000],
        )
    await add(jobs, 3)
    async with PgWorker(jobs, "q", handler, concurrency=4, poll=0.02):
        assert (await until(jobs, lambda f: f["completed"] + f["failed"] == 4))["failed"] == 1


async def test_a_connection_that_broke_meanwhile_does_not_undo_what_the_handler_did(jobs, pg_dsn) -> None:
    """The job has one attempt: if noting its end counted as one, it would have failed."""
    ran: list[int] = []
    async with AsyncConnectionPool(pg_dsn, min_size=2, max_size=2, timeout=30, open=False) as own:
        pids = []
        async with own.connection() as one, own.connection() as two:
            pids += [one.info.backend_pid, two.info.backend_pid]

        async def handler(job: PgJob) -> str:
            ran.append(job.id)
            async with jobs.connection() as conn:
                await conn.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [pids])
                async with asyncio.timeout(30):
                    while await alive(conn, pids):
                        await asyncio.sleep(0.01)
            return "done"

        await add(jobs, 1, attempts=1)
        async with PgWorker(own, "q", handler, poll=60):  # later looks would find the broken connections
            await until(jobs, lambda found: found["completed"] + found["failed"] == 1)
    assert ran == [1]
    assert await row(jobs, "state, result #>> '{}', attempts_made, failed_reason") == (
        "completed",
        "done",
        1,
        None,
    )


async def alive(conn: Any, pids: list[int]) -> bool:
    found = await conn.execute("SELECT 1 FROM pg_stat_activity WHERE pid = any(%s)", [pids])
    some = await found.fetchone() is not None
    await conn.commit()  # within a transaction the view stays as it was first read
    return some


async def test_a_plain_function_is_a_handler_too_and_its_work_counts_once(jobs: Pool) -> None:
    ran: list[int] = []

    def handler(job: PgJob) -> int:
        ran.append(job.id)
        return job.data

    await add(jobs, 2, attempts=3)
    async with PgWorker(jobs, "q", handler, poll=0.02):  # type: ignore[arg-type]
        await until(jobs, lambda found: found["completed"] == 2)
    assert ran == [1, 2]


async def test_close_with_a_limit_gives_the_job_back(jobs: Pool) -> None:
    entered = asyncio.Event()

    async def handler(job: PgJob) -> None:
        entered.set()
        await asyncio.sleep(600)

    await add(jobs)
    worker = await PgWorker(jobs, "q", handler, poll=0.02).start()
    await entered.wait()
    await worker.close(timeout=0.05)
    assert await row(jobs, "state, attempts_made, stalled") == ("waiting", 0, 0)
    with pytest.raises(RuntimeError, match="started before"):
        await worker.start()
    await nothing_left_behind(jobs)


@pytest.mark.parametrize(
    "bad",
    [{"concurrency": 0}, {"lock_duration": 0}, {"poll": -1}, {"max_stalled_count": -1}, {"name": "\x00"}],
)
async def test_bad_options_are_refused(jobs: Pool, bad: dict[str, Any]) -> None:
    async def handler(job: PgJob) -> None: ...

    with pytest.raises(ValueError, match=next(iter(bad))):
        PgWorker(jobs, "q", handler, **bad)
