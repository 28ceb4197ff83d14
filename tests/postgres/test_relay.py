"""The relay: everything that was committed goes out, whatever fails, dies or stands in the way."""

import asyncio
import itertools
import random
import signal
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from qlab import Backoff, Queue
from qlab.postgres import outbox
from qlab.postgres.errors import ConnectionUnusable, NotInstalled
from qlab.postgres.outbox import Message
from qlab.postgres.relay import Relay
from qlab.testing import ManualClock
from tests.postgres.conftest import Pool, nothing_left_behind

NOON = datetime(2026, 10, 9, 12, 0, tzinfo=UTC)
DYING = """
import asyncio, os, signal, sys
from psycopg import AsyncConnection
from qlab import Queue
from qlab.postgres.relay import Relay
async def main():
    conn = await AsyncConnection.connect(sys.argv[1])
    async with Queue("q") as queue:
        async def publish(message):
            await queue.add(message.topic, message.payload, job_id=message.job_id)
            if message.payload == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        await Relay(conn, publish).run_once()
asyncio.run(main())
"""

STOPPED = """
import asyncio, sys
from psycopg import AsyncConnection
from qlab.postgres.relay import Relay
async def main():
    async def publish(message):
        print("publishing", flush=True)
        await asyncio.sleep(0.5)                  # stopped here
    conn = await AsyncConnection.connect(sys.argv[1])
    await Relay(conn, publish, publish_timeout=0.6, pass_limit=0.1).run_once()
asyncio.run(main())
"""


class Sink:
    """What was published, in order; refuses payloads that begin with "bad" until it is repaired."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.sent: list[Message] = []
        self.repaired = False
        self.error: type[Exception] = RuntimeError

    async def __call__(self, message: Message) -> None:
        self.calls.append((asyncio.get_running_loop().time(), message.id))
        await asyncio.sleep(0)
        if str(message.payload).startswith("bad") and not self.repaired:
            raise self.error("refused")
        self.sent.append(message)

    @property
    def payloads(self) -> list[Any]:
        return [message.payload for message in self.sent]


async def write(pool: Pool, *payloads: Any, now: datetime | None = None) -> list[int]:
    async with pool.connection() as conn:
        return [await outbox.write(conn, "t", payload, now=now) for payload in payloads]


async def until(condition: Any, limit: float = 60) -> None:
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.01)


async def count(pool: Pool, where: str) -> int:
    async with pool.connection() as conn:
        cursor = await conn.execute(f"SELECT count(*) FROM outbox WHERE {where}".encode())
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def test_relay_killed_before_commit_then_the_next_one(
    outbox_pool: Pool, pg_dsn: str, redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chapter's figures: 0 published and 3 jobs, then 5 published and exactly 5 jobs."""
    monkeypatch.setenv("QLAB_PREFIX", prefix)
    await write(outbox_pool, 1, 2, 3, 4, 5)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, pg_dsn)
    assert await child.wait() == -signal.SIGKILL
    async with Queue("q", redis_url, prefix=prefix) as queue:

        async def publish(message: Message) -> None:
            await queue.add(message.topic, message.payload, job_id=message.job_id)

        assert await count(outbox_pool, "published_at IS NOT NULL") == 0
        assert (await queue.get_job_counts("waiting"))["waiting"] == 3
        relay = Relay(outbox_pool, publish)
        while await count(outbox_pool, "published_at IS NULL"):  # the server notices the death by itself
            await relay.run_once()
        assert await count(outbox_pool, "published_at IS NOT NULL") == 5
        assert (await queue.get_job_counts("waiting"))["waiting"] == 5
        job = await queue.get_job("outbox-3")
        assert job is not None
        assert job.data == 3


async def test_two_relays_share_the_rows_and_never_wait(outbox_pool: Pool) -> None:
    await write(outbox_pool, *range(10))
    first_holds, go_on = asyncio.Event(), asyncio.Event()
    slow, fast = Sink(), Sink()

    async def publish(message: Message) -> None:
        first_holds.set()
        await go_on.wait()
        await slow(message)

    first = asyncio.create_task(Relay(outbox_pool, publish, batch=5).run_once())
    await first_holds.wait()
    second = await Relay(outbox_pool, fast, batch=5).run_once()  # while the first one holds its five
    go_on.set()
    assert len((await first).published) == len(second.published) == 5
    assert sorted(slow.payloads + fast.payloads) == list(range(10))


async def test_h22_a_lower_id_that_commits_later_is_not_lost(outbox_pool: Pool, pg_dsn: str) -> None:
    sink = Sink()
    relay = Relay(outbox_pool, sink)
    async with await AsyncConnection.connect(pg_dsn) as early:
        first = await outbox.write(early, "t", "early")
        (second,) = await write(outbox_pool, "late")
        assert first < second
        assert (await relay.run_once()).published == [second]
        await early.commit()
    assert (await relay.run_once()).published == [first]


async def test_h22_all_that_is_committed_and_nothing_else_under_load(outbox_pool: Pool) -> None:
    rng, committed = random.Random(22), set[int]()

    async def writer() -> None:
        for _ in range(6):
            async with outbox_pool.connection() as conn:
                ids = [await outbox.write(conn, "t", "x") for _ in range(rng.randint(1, 3))]
                await asyncio.sleep(rng.random() * 0.2)
                if rng.random() < 0.2:
                    await conn.rollback()
                else:
                    await conn.commit()
                    committed.update(ids)

    sink = Sink()
    async with Relay(outbox_pool, sink, batch=5), Relay(outbox_pool, sink, batch=5):
        await asyncio.gather(*(writer() for _ in range(17)))  # the pool has 20, two are the relays'
        await until(lambda: len(sink.sent) >= len(committed))
    assert Counter(message.id for message in sink.sent) == Counter(committed)
    await nothing_left_behind(outbox_pool)


async def test_h29_poison_rows_block_nobody_and_die_after_their_attempts(outbox_pool: Pool) -> None:
    poison = await write(outbox_pool, *(f"bad-{n}" for n in range(24)))
    async with outbox_pool.connection() as conn:  # valid JSON that Python cannot decode
        await conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', %s)", ["[" * 3000 + "]" * 3000])
    good = await write(outbox_pool, *range(500))
    sink = Sink()
    options: dict[str, Any] = {"batch": 10, "attempts": 5, "backoff": Backoff.exponential(0.1), "poll": 0.05}
    async with Relay(outbox_pool, sink, **options), Relay(outbox_pool, sink, **options):
        await until(lambda: len(sink.sent) == 500)
        async with asyncio.timeout(60):
            while (lag := await outbox.lag(outbox_pool)).dead < 25:
                assert lag.live <= 25
                await asyncio.sleep(0.05)
    assert sorted(message.id for message in sink.sent) == good
    assert (lag.live, lag.oldest) == (0, 0.0)
    assert len(sink.calls) == 500 + 125
    for row in poison:
        times = [at for at, message in sink.calls if message == row]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert len(times) == 5
        assert all(gap >= 0.1 * 2**n for n, gap in enumerate(gaps))
    assert await count(outbox_pool, "attempts = 5 AND last_error = 'RuntimeError: refused'") == 24
    assert await count(outbox_pool, "attempts = 5 AND last_error LIKE 'RecursionError%%'") == 1

    sink.repaired = True
    assert await outbox.replay(outbox_pool, poison) == 24
    again = await Relay(outbox_pool, sink).run_once()
    assert again.published == poison
    assert (await outbox.lag(outbox_pool)).dead == 1


async def test_poison_rows_first_of_every_batch_do_not_stand_before_the_good_ones(outbox_pool: Pool) -> None:
    clock = ManualClock(NOON)
    await write(outbox_pool, *["bad"] * 3, *range(3), now=NOON)
    sink = Sink()
    relay = Relay(outbox_pool, sink, batch=3, attempts=2, backoff=Backoff.fixed(10), clock=clock)
    assert len((await relay.run_once()).failed) == 3
    assert len((await relay.run_once()).published) == 3
    assert (await relay.run_once()).size == 0
    clock.advance(9.999)
    assert (await relay.run_once()).size == 0
    clock.advance(0.001)
    assert len((await relay.run_once()).dead) == 3


async def test_an_outage_costs_no_attempt_and_ends_the_pass(outbox_pool: Pool) -> None:
    sink = Sink()
    sink.error = ConnectionRefusedError
    await write(outbox_pool, *(f"bad-{n}" for n in range(10)))
    relay = Relay(outbox_pool, sink, attempts=1, backoff=Backoff.fixed(0))
    for _ in range(5):
        batch = await relay.run_once()
        assert (len(sink.calls), batch.dead, len(batch.failed)) == (3, [], 3)
        assert isinstance(batch.outage, ConnectionRefusedError)
        sink.calls.clear()
    sink.repaired = True
    assert len((await relay.run_once()).published) == 10
    assert await count(outbox_pool, "attempts = 1") == 10


async def test_rows_that_look_like_an_outage_do_not_block_the_others_and_are_found_out(
    outbox_pool: Pool,
) -> None:
    """Such as a web hook whose own host is gone: other rows go out, so it is not an outage."""
    sink = Sink()
    sink.error = ConnectionRefusedError
    for n in range(30):
        await write(outbox_pool, "bad" if n < 6 or n % 10 == 0 else n)
    relay = Relay(outbox_pool, sink, batch=10, attempts=1, backoff=Backoff.fixed(0))
    passes = 0
    while len(sink.sent) < 22:
        passes += 1
        await relay.run_once()
    assert passes <= 12
    assert await count(outbox_pool, "dead_at IS NOT NULL") >= 2
    assert await count(outbox_pool, "dead_at IS NOT NULL AND payload::text <> '\"bad\"'") == 0


@pytest.mark.parametrize("how", ["cancelled", "cancels itself", "exits"])
async def test_a_publish_that_ends_by_no_exception_fails_like_any(outbox_pool: Pool, how: str) -> None:
    """They are no Exception: they would end the relay without a word, or the process."""
    sent: list[Any] = []
    reason = "SystemExit: 3" if how == "exits" else "CancelledError"

    async def publish(message: Message) -> None:
        if message.payload == "bad" and how == "exits":
            sys.exit(3)
        elif message.payload == "bad":
            inner = asyncio.create_task(asyncio.sleep(600)) if how == "cancelled" else asyncio.current_task()
            assert inner is not None
            asyncio.get_running_loop().call_soon(inner.cancel)
            await (inner if how == "cancelled" else asyncio.sleep(600))
        sent.append(message.payload)

    await write(outbox_pool, "bad", "good")
    async with Relay(outbox_pool, publish, attempts=2, backoff=Backoff.fixed(0), poll=0.02):
        await until(lambda: sent == ["good"])
        async with asyncio.timeout(60):
            while await count(outbox_pool, f"last_error = '{reason}' AND dead_at IS NOT NULL") == 0:
                await asyncio.sleep(0.02)
    assert await count(outbox_pool, "published_at IS NOT NULL") == 1


async def test_a_relay_that_is_cancelled_ends_and_leaves_its_rows(outbox_pool: Pool) -> None:
    began = asyncio.Event()

    async def publish(message: Message) -> None:
        began.set()
        await asyncio.sleep(600)

    await write(outbox_pool, 1)
    task = asyncio.create_task(Relay(outbox_pool, publish, publish_timeout=600).run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await count(outbox_pool, "published_at IS NULL AND attempts = 0 AND last_error IS NULL") == 1


async def test_what_a_plain_function_published_is_published(outbox_pool: Pool) -> None:
    sent: list[Any] = []
    await write(outbox_pool, 1, 2)
    batch = await Relay(outbox_pool, lambda message: sent.append(message.payload)).run_once()  # type: ignore[arg-type, func-returns-value]
    assert (sent, len(batch.published), batch.failed) == ([1, 2], 2, [])
    with pytest.raises(TypeError, match="publish must be a function"):
        Relay(outbox_pool, None)  # type: ignore[arg-type]


async def test_a_sink_that_hangs_is_cut_and_counted(outbox_pool: Pool) -> None:
    await write(outbox_pool, "a", "b")

    async def hang(message: Message) -> None:
        await asyncio.sleep(600)

    batch = await Relay(outbox_pool, hang, publish_timeout=0.05).run_once()
    assert (len(batch.failed), isinstance(batch.outage, TimeoutError)) == (1, True)
    assert await count(outbox_pool, "attempts = 1 AND last_error LIKE 'TimeoutError%%'") == 1
    await nothing_left_behind(outbox_pool)


async def test_a_commit_wakes_the_relay_and_polling_stands_behind_it(outbox_pool: Pool) -> None:
    sink = Sink()
    async with Relay(outbox_pool, sink, poll=3600):
        await write(outbox_pool, "first")  # found by the first look or by the hint
        await until(lambda: len(sink.sent) == 1)
        await write(outbox_pool, "second")  # only the hint can tell: the next look is in an hour
        await until(lambda: len(sink.sent) == 2)
    async with Relay(outbox_pool, sink, poll=0.02, listen=False):
        async with outbox_pool.connection() as conn:
            await outbox.write(conn, "t", "third", hint=False)
        await until(lambda: len(sink.sent) == 3)
    assert sink.payloads == ["first", "second", "third"]


async def test_close_commits_what_went_out_and_leaves_the_rest(outbox_pool: Pool) -> None:
    await write(outbox_pool, *range(10))
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def publish(message: Message) -> None:
        entered.set()
        await go_on.wait()

    relay = await Relay(outbox_pool, publish).start()
    await entered.wait()
    closing = asyncio.create_task(relay.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert await count(outbox_pool, "published_at IS NOT NULL") == 1
    with pytest.raises(RuntimeError, match="started before"):
        await relay.start()
    async with outbox_pool.connection() as conn:
        cursor = await conn.execute("SELECT count(*) FROM pg_listening_channels()")
        assert await cursor.fetchone() == (0,)
    await nothing_left_behind(outbox_pool)


async def test_a_running_relay_survives_the_end_of_its_connection(outbox_pool: Pool) -> None:
    sink = Sink()
    async with Relay(outbox_pool, sink, poll=0.05):
        await write(outbox_pool, 1)
        await until(lambda: len(sink.sent) == 1)
        async with outbox_pool.connection() as conn:
            await conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await write_when_possible(outbox_pool, 2)
        await until(lambda: set(sink.payloads) == {1, 2})  # 1 again, if it was on its way to COMMIT


async def write_when_possible(pool: Pool, payload: Any) -> None:
    async with asyncio.timeout(30):
        while True:  # the pool may still hand out connections that the server has ended
            try:
                await write(pool, payload)
                return
            except psycopg.OperationalError:
                await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_rows_of_a_stopped_relay_go_out_by_another(outbox_pool: Pool, pg_dsn: str) -> None:
    await write(outbox_pool, 1, 2, 3)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STOPPED, pg_dsn, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"publishing\n"
    child.send_signal(signal.SIGSTOP)
    sink = Sink()
    assert (await Relay(outbox_pool, sink).run_once()).size == 0  # it holds all three
    async with Relay(outbox_pool, sink, poll=0.1):
        await until(lambda: len(sink.sent) == 3)
    child.send_signal(signal.SIGCONT)
    _, errors = await child.communicate()
    assert child.returncode == 1
    assert b"idle-in-transaction timeout" in errors  # what it published too late it could not mark
    assert await count(outbox_pool, "attempts = 1 AND published_at IS NOT NULL") == 3


async def test_the_server_ends_a_pass_whose_process_is_silent(outbox_pool: Pool, pg_dsn: str) -> None:
    """A stopped process would keep its row locks for ever; the limit is in the transaction itself."""
    await write(outbox_pool, 1)
    seen: list[str] = []

    async with await AsyncConnection.connect(pg_dsn) as conn:

        async def publish(message: Message) -> None:
            cursor = await conn.execute("SHOW idle_in_transaction_session_timeout")
            seen.extend(await cursor.fetchone() or ())

        await Relay(conn, publish, publish_timeout=3, pass_limit=2).run_once()
        cursor = await conn.execute("SHOW idle_in_transaction_session_timeout")
        assert await cursor.fetchone() == ("0",)
    assert seen == ["10s"]


async def test_a_pool_of_one_works_without_listening_and_is_refused_with_it(pg_dsn: str) -> None:
    async with AsyncConnectionPool(pg_dsn, min_size=1, max_size=1, timeout=20, open=False) as single:
        async with single.connection() as conn:
            await outbox.install(conn)
        with pytest.raises(ValueError, match="max_size=2"):
            Relay(single, Sink())
        sink = Sink()
        async with Relay(single, sink, listen=False, poll=0.02):
            await write(single, 1, 2)
            await until(lambda: len(sink.sent) == 2)


async def test_publish_that_wants_the_same_pool_is_told_so(outbox_pool: Pool) -> None:
    await write(outbox_pool, 1)

    async def publish(message: Message) -> None:
        await outbox.lag(outbox_pool)

    assert len((await Relay(outbox_pool, publish).run_once()).failed) == 1
    assert await count(outbox_pool, "last_error LIKE '%%asks for a second one%%'") == 1


@pytest.mark.parametrize(
    "bad", [{"batch": 0}, {"batch": 1.5}, {"attempts": 0}, {"poll": -1}, {"publish_timeout": "1"}]
)
async def test_bad_options_are_refused(outbox_pool: Pool, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Relay(outbox_pool, Sink(), **bad)


async def test_connections_that_cannot_work_say_so(pg_dsn: str) -> None:
    async with await AsyncConnection.connect(pg_dsn) as conn:
        with pytest.raises(NotInstalled, match="install"):
            await Relay(conn, Sink()).run_once()
        await conn.execute("SELECT 1")
        with pytest.raises(ConnectionUnusable, match="inside a transaction"):
            await Relay(conn, Sink()).run_once()
        await conn.rollback()
        with pytest.raises(ValueError, match="time zone"):
            await Relay(conn, Sink(), clock=lambda: datetime(2026, 1, 1)).run_once()  # noqa: DTZ001
    with pytest.raises(ConnectionUnusable, match="closed"):
        await Relay(conn, Sink()).run_once()


async def test_late_rows_of_a_future_clock_wait_their_time(outbox_pool: Pool) -> None:
    await write(outbox_pool, 1, now=NOON + timedelta(hours=1))
    assert (await Relay(outbox_pool, Sink(), clock=ManualClock(NOON)).run_once()).size == 0
