"""The caller's connection may be set up in any way: what qlab does on it stays the same, or is refused."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import psycopg
import pytest
from psycopg import AsyncClientCursor, AsyncConnection, AsyncRawCursor, IsolationLevel
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row
from psycopg.types.string import TextLoader
from psycopg_pool import ConnectionPool

from qlab.errors import LockLost
from qlab.postgres import cursor, idempotency, outbox, pg_queue, row_cursor
from qlab.postgres.advisory import Exclusive, run_exclusive
from qlab.postgres.errors import ClaimLost, ConnectionUnusable, NotInstalled
from qlab.postgres.relay import Relay

Conn = AsyncConnection[Any]
MODULES = (idempotency, outbox, cursor, row_cursor, pg_queue)


@pytest.fixture
async def dsn(pg_dsn: str) -> str:
    """A database with all tables."""
    async with await AsyncConnection.connect(pg_dsn, autocommit=True) as conn:
        for module in MODULES:
            await module.install(conn)
    return pg_dsn


def text_loaders(conn: Conn) -> None:
    for name in ("timestamptz", "date", "float8", "uuid", "bool", "int8"):
        conn.adapters.register_loader(name, TextLoader)


async def everything(conn: Conn) -> list[Any]:
    """One step of each pattern, with texts that are not ASCII."""

    async def effect() -> dict[str, str]:
        return {"é": "😀%s"}

    async def nothing(*_: Any) -> None:
        pass

    found: list[Any] = []
    for _ in range(2):
        found.append(await idempotency.run_once(conn, "khoá", effect, lock_seconds=9, request={"é": 1}))
    async with conn.transaction():
        await outbox.write(conn, "đơn", {"😀": "%s"})
        await pg_queue.enqueue(conn, "thư", "gửi", ["%(a)s"])
    found.append((await outbox.lag(conn)).live)
    found.append((await Relay(conn, nothing, listen=False).run_once()).size)
    (job,) = await pg_queue.take(conn, "thư", "w")
    found.append((job.data, await pg_queue.renew(conn, [job])))
    await pg_queue.complete(conn, job)
    with pytest.raises(LockLost):
        await pg_queue.complete(conn, job)
    found.append(await run_exclusive(conn, "khoá", count, wait=1))
    day = date(1969, 12, 30)
    found.append(await cursor.run_rollup(conn, "ngày", nothing, zone="Asia/Kathmandu", start=day, max_days=2))
    with pytest.raises(LookupError):
        await cursor.set_cursor(conn, "không có", day)
    return found


async def count(conn: Conn) -> int:
    return len(await (await conn.execute("SELECT 1")).fetchall())


EVERYTHING = [
    idempotency.Outcome({"é": "😀%s"}, ran=True),
    idempotency.Outcome({"é": "😀%s"}, ran=False),
    1,
    1,
    (["%(a)s"], []),
    Exclusive(ran=True, result=1),
    [date(1969, 12, 30), date(1969, 12, 31)],
]


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"row_factory": dict_row}, ""),
        ({"row_factory": namedtuple_row}, ""),
        ({"row_factory": class_row(dict)}, ""),
        ({"row_factory": scalar_row}, ""),
        ({"cursor_factory": AsyncClientCursor}, ""),
        ({"cursor_factory": AsyncRawCursor}, ""),
        ({"prepare_threshold": 0}, "-c plan_cache_mode=force_generic_plan"),
        ({}, "-c timezone=Asia/Kathmandu -c datestyle=German"),
        ({}, "-c datestyle=SQL,DMY -c intervalstyle=sql_standard -c extra_float_digits=-5"),
        ({}, "-c default_transaction_isolation=serializable -c standard_conforming_strings=off"),
        ({}, "-c statement_timeout=5000 -c lock_timeout=5000"),
    ],
)
async def test_settings_do_not_matter(
    dsn: str, options: dict[str, Any], settings: str, autocommit: bool
) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=autocommit, options=settings, **options) as conn:
        assert await everything(conn) == EVERYTHING


async def test_loaders_do_not_matter(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        text_loaders(conn)
        assert await everything(conn) == EVERYTHING


async def test_a_schema_of_its_own(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as owner:
        await owner.execute("CREATE SCHEMA app")
    async with await AsyncConnection.connect(
        dsn, autocommit=True, options="-c search_path=app,public"
    ) as conn:
        for module in MODULES:
            await module.install(conn)  # though there are tables in public
        assert await everything(conn) == EVERYTHING
        for table in ("app.outbox", "public.outbox"):
            rows = (await conn.execute(f"SELECT 1 FROM {table}".encode())).rowcount
            assert rows == (table == "app.outbox")


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
async def test_whoever_has_the_lock_sees_what_the_one_before_wrote(dsn: str, level: IsolationLevel) -> None:
    """With an older snapshot each of them would count none, and nobody would notice."""
    conns = [await AsyncConnection.connect(dsn) for _ in range(5)]
    await conns[0].execute("CREATE TABLE visitor (n bigint)")
    await conns[0].commit()

    async def come(conn: Conn) -> None:
        await conn.execute("INSERT INTO visitor SELECT count(*) FROM visitor")

    async def work(conn: Conn) -> None:
        await conn.set_isolation_level(level)
        await run_exclusive(conn, "door", come, wait=20)
        assert conn.isolation_level == level
        async with conn.transaction():
            row = await (await conn.execute("SHOW transaction_isolation")).fetchone()
            assert row == (level.name.lower().replace("_", " "),)

    await asyncio.gather(*map(work, conns))
    found = await (await conns[0].execute("SELECT n FROM visitor ORDER BY n")).fetchall()
    assert found == [(n,) for n in range(5)]
    await asyncio.gather(*(conn.close() for conn in conns))


async def test_many_at_once_at_another_level_never_see_an_error_of_it(dsn: str) -> None:
    conns = [await AsyncConnection.connect(dsn) for _ in range(5)]
    claims: list[Any] = []
    ended: list[int] = []

    async def drain(conn: Conn) -> None:
        await conn.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        with contextlib.suppress(idempotency.KeyBusy):
            claims.append(await idempotency.claim(conn, "one", lock_seconds=60))
        while jobs := await pg_queue.take(conn, "q", "w", most=2):
            for job in jobs:
                await pg_queue.complete(conn, job)
                ended.append(job.id)

    async with conns[0].transaction():
        for _ in range(40):
            await pg_queue.enqueue(conns[0], "q", "j")
    await asyncio.gather(*map(drain, conns))
    assert len(claims) == 1
    assert sorted(ended) == list(range(1, 41))
    await asyncio.gather(*(conn.close() for conn in conns))


async def in_pipeline(dsn: str, work: Callable[[Conn], Awaitable[Any]]) -> Any:
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn, conn.pipeline():
        return await work(conn)


async def test_in_a_pipeline_all_is_as_without(dsn: str) -> None:
    assert await in_pipeline(dsn, everything) == EVERYTHING


async def test_in_a_pipeline_a_lost_claim_is_refused(dsn: str) -> None:
    """The number of rows comes with the server's answer, which a pipeline puts off."""
    async with await AsyncConnection.connect(dsn) as conn:
        old = await idempotency.claim(conn, "key", lock_seconds=1e-6)
        new = await idempotency.claim(conn, "key", lock_seconds=60)
        assert isinstance(old, idempotency.Claim)
        assert isinstance(new, idempotency.Claim)
    with pytest.raises(ClaimLost):
        await in_pipeline(dsn, lambda conn: idempotency.done(conn, old, 1))
    assert await in_pipeline(dsn, lambda conn: idempotency.release(conn, new)) is True


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_texts_that_would_arrive_changed_are_refused(dsn: str, encoding: str) -> None:
    async with await AsyncConnection.connect(dsn, options=f"-c client_encoding={encoding}") as conn:
        with pytest.raises(ConnectionUnusable, match=f"{encoding}.*client_encoding=utf8"):
            await idempotency.claim(conn, "key", lock_seconds=1)


async def test_a_read_only_connection_says_so(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, options="-c default_transaction_read_only=on") as conn:
        with pytest.raises(ConnectionUnusable, match="read-only"):
            await idempotency.claim(conn, "key", lock_seconds=1)
        with pytest.raises(ConnectionUnusable, match="read-only"):
            await outbox.write(conn, "topic", 1)


async def test_what_is_no_asyncio_connection_is_named(dsn: str) -> None:
    with psycopg.connect(dsn) as conn, ConnectionPool(dsn, min_size=1, open=True) as pool:
        for source in (conn, pool, dsn, None):
            with pytest.raises(TypeError, match=f"AsyncConnectionPool, not {type(source).__name__}"):
                await idempotency.claim(source, "key", lock_seconds=1)  # type: ignore[arg-type]


async def test_a_user_without_the_right_to_create(dsn: str, pg_dsn: str) -> None:
    """Where the tables are there, `install` at every start is fine for him; where not, he is told."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("CREATE ROLE plain_user")
        try:
            await conn.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain_user")
            await conn.execute("SET ROLE plain_user")
            for module in MODULES:
                await module.install(conn)
            assert await everything(conn) == EVERYTHING
            await conn.execute("RESET ROLE")
            await conn.execute("DROP TABLE outbox")
            await conn.execute("SET ROLE plain_user")
            with pytest.raises(NotInstalled, match="may not create table outbox"):
                await outbox.install(conn)
        finally:
            await conn.execute("RESET ROLE")
            await conn.execute("DROP OWNED BY plain_user")
            await conn.execute("DROP ROLE plain_user")


async def test_a_swallowed_error_is_no_success(dsn: str) -> None:
    """PostgreSQL rolls such a transaction back at COMMIT, and calls that no error."""

    async def careless(conn: Conn, *_: Any) -> None:
        await conn.execute("CREATE TABLE gone ()")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("SELECT 1 / 0")

    async def commits(conn: Conn) -> None:
        await conn.execute("COMMIT")

    async with await AsyncConnection.connect(dsn) as conn:
        with pytest.raises(ConnectionUnusable, match="nothing of it is kept"):
            await run_exclusive(conn, "door", careless)
        with pytest.raises(ConnectionUnusable, match="statement failed"):
            await cursor.run_rollup(conn, "daily", careless, zone="UTC", start=date(2026, 1, 1))
        with pytest.raises(ConnectionUnusable, match="ended inside"):
            await run_exclusive(conn, "door", commits)
        row = await (await conn.execute("SELECT to_regclass('gone'), current_setting('role')")).fetchone()
        assert row == (None, "none")


async def test_a_wait_for_a_lock_may_take_longer_than_other_statements(dsn: str) -> None:
    inside, let_go = asyncio.Event(), asyncio.Event()

    async def hold(_: Conn) -> None:
        inside.set()
        await let_go.wait()

    async def limits(conn: Conn) -> Any:
        shown = await conn.execute(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        return await shown.fetchone()

    async with (
        await AsyncConnection.connect(dsn) as first,
        await AsyncConnection.connect(dsn, options="-c statement_timeout=100 -c lock_timeout=50ms") as second,
    ):
        holding = asyncio.create_task(run_exclusive(first, "door", hold))
        await inside.wait()
        waiting = asyncio.create_task(run_exclusive(second, "door", limits, wait=30))
        async with await AsyncConnection.connect(dsn, autocommit=True) as third, asyncio.timeout(30):
            while not await _waits(third):
                await asyncio.sleep(0.01)
        let_go.set()
        assert (await holding).ran
        assert await waiting == Exclusive(ran=True, result=("100ms", "50ms"))


async def _waits(conn: Conn) -> bool:
    """Somebody has waited for longer than his limits."""
    found = await conn.execute(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database() "
        "AND clock_timestamp() - query_start > interval '0.3 s'"
    )
    return await found.fetchone() is not None
