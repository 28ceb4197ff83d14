"""`explore` itself: repeatable, bounded, refusing what it would miss, leaving nothing behind."""

import asyncio
import gc
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis.asyncio as redis

from qlab.classroom.wrong import charging as wrong
from qlab.embedded import ServerError
from qlab.testing import (
    Actor,
    DeliveryRules,
    Evidence,
    ExplorerError,
    FaultLab,
    NonDeterministic,
    Provider,
    ProviderClient,
    Unsupported,
    World,
    explore,
)
from tests.testing.explored import charged, charging, connect


async def fine(evidence: Evidence) -> str:
    return "once"


def actor(handler: Callable[[World], Awaitable[object]]) -> Actor:
    return Actor("A", handler)


TWO_PROCESSES = """
import asyncio
from qlab.classroom.wrong import charging as wrong
from qlab.testing import FaultLab, Provider, explore
from tests.testing.explored import charged, charging
async def main():
    async with FaultLab() as lab:
        await lab.install(wrong.create_tables)
        pair = [charging(wrong.charge_first, "A"), charging(wrong.charge_first, "B")]
        report = await explore(lab, pair, charged(), switches=1, provider=Provider(dedupe=False))
        print(report.to_json())
asyncio.run(main())
"""


async def test_two_processes_see_the_same(lab: FaultLab):
    await lab.install(wrong.create_tables)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", TWO_PROCESSES, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    pair = [charging(wrong.charge_first, "A"), charging(wrong.charge_first, "B")]
    report = await explore(lab, pair, charged(), switches=1, provider=Provider(dedupe=False))
    output, _ = await other.communicate()
    theirs, ours = json.loads(output), json.loads(report.to_json())
    del theirs["seconds"], ours["seconds"]
    assert theirs == ours
    assert report.schedules == 99


async def test_a_handler_that_does_not_repeat_is_named(lab: FaultLab):
    calls = itertools.count()

    async def moody(world: World) -> None:
        async with await connect(world) as connection:
            await connection.execute("SELECT 1")
            await connection.execute(f"SELECT {next(calls)}")
            await connection.execute("SELECT 3")

    with pytest.raises(NonDeterministic, match=r"move 2 was 'A SELECT 0' the first time and 'A SELECT 1'"):
        await explore(lab, [actor(moody)], fine)


async def run_sql(world: World, sql: str) -> None:
    async with await connect(world) as connection:
        await connection.execute(sql)


async def find_over_http(world: World) -> None:
    async with ProviderClient(world.provider_url) as provider:
        await provider.find("o1")


async def run_redis(world: World, *words: str) -> None:
    async with redis.from_url(world.redis_url) as client:
        await client.execute_command(*words)


async def copy(world: World) -> None:
    statement = "/* first */ COPY processed_job FROM STDIN"
    async with await connect(world) as connection, connection.cursor().copy(statement) as stream:
        await stream.write_row(["x"])


async def encrypted(world: World) -> None:
    reader, writer = await asyncio.open_unix_connection(_socket(world))
    writer.write((8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"))
    await reader.read()
    writer.close()


def _socket(world: World) -> str:
    return str(Path(world.provider_socket).with_name(".s.PGSQL.5432"))


REFUSED = {
    "COPY": copy,
    "LISTEN": lambda world: run_sql(world, "LISTEN jobs"),
    "CURRENT_TIMESTAMP": lambda world: run_sql(world, "SELECT current_timestamp"),
    "sslmode=disable": encrypted,
    "thread": lambda world: asyncio.to_thread(len, "x"),
    "BLPOP": lambda world: run_redis(world, "BLPOP", "jobs", "1"),
    "only charge": lambda world: world.provider.find("o1"),
    "POST /charges": lambda world: find_over_http(world),
    "TIME": lambda world: run_redis(world, "TIME"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refused_with_a_sentence(lab: FaultLab, what: str):
    async def quiet(world: World) -> None:
        """Not even a handler that swallows the error hides it."""
        try:
            await REFUSED[what](world)
        except Exception:
            await asyncio.sleep(1)

    await lab.install(wrong.create_tables)
    with pytest.raises(Unsupported, match=what):
        await explore(lab, [actor(quiet)], fine)


async def test_nonsense_on_the_wire_cuts_the_connection(lab: FaultLab):
    async def babble(world: World) -> None:
        for name in (".s.PGSQL.5432", "redis.sock", "provider.sock"):
            reader, writer = await asyncio.open_unix_connection(Path(_socket(world)).with_name(name))
            writer.write(bytes(range(256)) * 40)
            try:
                await reader.read()
            except ConnectionError:
                await asyncio.sleep(0)
            writer.close()

    report = await explore(lab, [actor(babble)], fine)
    assert report.outcomes == {"once": 1}


async def test_limits_end_a_search_and_the_verdict_says_so(lab: FaultLab):
    await lab.install(wrong.create_tables)
    one = [charging(wrong.processed_job_first)]
    report = await explore(lab, one, fine, limit_schedules=3)
    assert report.verdict == "no failure in 3 schedules within 1 fault and 0 switches; stopped at a limit"
    assert (await explore(lab, one, fine, limit_seconds=0)).complete is False


async def test_progress_comes_back_in_the_callers_loop(lab: FaultLab):
    seen: list[tuple[int, int, bool]] = []

    def progress(done: int, outcomes: Any) -> None:
        seen.append((done, sum(outcomes.values()), threading.current_thread() is threading.main_thread()))

    await lab.install(wrong.create_tables)
    report = await explore(lab, [charging(wrong.processed_job_first)], fine, progress=progress)
    while not seen or seen[-1][0] < report.schedules:
        await asyncio.sleep(0)
    assert seen[-1] == (13, 13, True)
    assert all(done == counted and ours for done, counted, ours in seen)


async def test_a_cancelled_exploration_ends_and_frees_the_lab(lab: FaultLab):
    await lab.install(wrong.create_tables)
    started = asyncio.Event()
    pair = [charging(wrong.charge_first, "A"), charging(wrong.charge_first, "B")]
    exploring = asyncio.create_task(
        explore(lab, pair, fine, faults=2, switches=2, progress=lambda *_: started.set())
    )
    async with asyncio.timeout(60):
        await started.wait()
    with pytest.raises(ExplorerError, match="in use"):
        await explore(lab, pair, fine)
    exploring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exploring
    assert (await explore(lab, pair, fine, faults=0)).complete


async def test_an_error_of_the_invariant_is_the_callers(lab: FaultLab):
    async def broken(evidence: Evidence) -> str:
        raise KeyError("no such order")

    async def unknown(evidence: Evidence) -> str:
        return "fine"

    async def nothing(world: World) -> None: ...

    with pytest.raises(KeyError):
        await explore(lab, [actor(nothing)], broken)
    with pytest.raises(ValueError, match="must be one of twice, lost"):
        await explore(lab, [actor(nothing)], unknown)


@pytest.mark.parametrize(
    ("wrong_arguments", "sentence"),
    [
        ({"actors": []}, "one or two"),
        ({"actors": [Actor("A", fine), Actor("A", fine)]}, "same name"),
        ({"faults": 9}, "0 to 3"),
        ({"switches": -1}, "0 to 5"),
    ],
)
async def test_wrong_arguments(lab: FaultLab, wrong_arguments: dict[str, Any], sentence: str):
    with pytest.raises(ValueError, match=sentence):
        await explore(lab, **{"actors": [Actor("A", fine)], "invariant": fine, **wrong_arguments})


def test_wrong_rules_and_names():
    with pytest.raises(ValueError, match="above zero"):
        DeliveryRules(lease=0)
    with pytest.raises(ValueError, match="letters"):
        Actor("A'", fine)


async def test_a_lab_that_is_not_open_and_servers_that_are_not_there(pg_dsn: str):
    async def nothing(connection: psycopg.AsyncConnection) -> None: ...

    with pytest.raises(ExplorerError, match="not open"):
        await FaultLab().install(nothing)
    with pytest.raises(ExplorerError, match="not open"):
        await explore(FaultLab(), [actor(fine)], fine)
    for dsn, url in (("postgresql://localhost:1/x", None), (pg_dsn, "redis://localhost:1/0")):
        with pytest.raises(ServerError):
            async with FaultLab(dsn, url):
                pass


@pytest.mark.parametrize("seed", ["A", "1>", "A1> nonsense", "A99999999"])
async def test_what_is_no_seed(lab: FaultLab, seed: str):
    report = await explore(lab, [actor(fine)], fine)
    with pytest.raises(ValueError, match="no part of a seed"):
        await report.replay(seed)


async def test_a_seed_that_does_not_fit_says_what_would(lab: FaultLab):
    await lab.install(wrong.create_tables)
    report = await explore(lab, [charging(wrong.processed_job_first)], fine)
    with pytest.raises(NonDeterministic, match=r"move 1 cannot be 'B\.' this time, only A\."):
        await report.replay("B1")


async def test_a_lock_on_oneself_is_stuck(lab: FaultLab):
    async def two_connections(world: World) -> None:
        async with await connect(world, autocommit=False) as one, await connect(world) as other:
            await one.execute("UPDATE order_count SET n = 1")
            await other.execute("UPDATE order_count SET n = 2")

    await lab.install(wrong.create_tables)
    report = await explore(lab, [actor(two_connections)], fine, faults=0)
    assert report.verdict == "stuck: -"


async def test_a_handler_that_only_waits_is_refused(lab: FaultLab):
    async def wait_for_ever(world: World) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(Unsupported, match="wait for ever"):
        await explore(lab, [actor(wait_for_ever)], fine)


async def test_every_schedule_begins_with_the_same_rows(lab: FaultLab):
    counts: list[int] = []

    async def count(world: World) -> None:
        async with await connect(world) as connection:
            row = await (await connection.execute("UPDATE order_count SET n = n + 1 RETURNING n")).fetchone()
            counts.append(row[0])

    await lab.install(wrong.create_tables)
    await explore(lab, [actor(count)], fine, faults=0)
    await explore(lab, [actor(count)], fine, faults=0)
    assert set(counts) == {1}


async def test_a_redis_with_keys_in_it_is_left_alone(private_redis_url: str, pg_dsn: str):
    async with redis.from_url(private_redis_url) as client:
        await client.set("precious", "1")
        with pytest.raises(ExplorerError, match="holds keys"):
            async with FaultLab(pg_dsn, private_redis_url):
                pass
        await client.delete("precious")
        async with FaultLab(pg_dsn, private_redis_url) as lab:
            await lab.install(wrong.create_tables)
            report = await explore(
                lab, [charging(wrong.charge_first)], charged(), provider=Provider(dedupe=False)
            )
    assert report.verdict == "twice: A1>"
    with psycopg.connect(pg_dsn) as connection:
        left = connection.execute("SELECT 1 FROM pg_database WHERE datname LIKE 'explorer%'").fetchall()
        left += connection.execute("SELECT 1 FROM pg_roles WHERE rolname LIKE 'explorer%'").fetchall()
    assert left == []


def _open_files() -> int:
    return psutil.Process().num_fds()


def _mine() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def test_no_server_process_socket_or_thread_is_left():
    processes, threads = _mine(), threading.active_count()
    async with FaultLab() as lab:
        folder = lab.folder
        await lab.install(wrong.create_tables)
        open_after = []
        for _ in range(2):  # what a process opens once, with its first exploration, it keeps
            for isolate in (False, True):
                await explore(lab, [charging(wrong.charge_first)], charged(), isolate=isolate)
            gc.collect()
            open_after.append(_open_files())
        assert open_after[1] <= open_after[0]  # fewer: something older was given back meanwhile
        assert [one.name for one in folder.iterdir() if one.name.startswith(("actor", "work"))] == []
    assert _mine() == processes
    assert threading.active_count() == threads
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_memory_is_flat_over_10_000_schedules(lab: FaultLab):
    async def insert(world: World) -> None:
        await run_sql(world, "INSERT INTO processed_job VALUES ('x') ON CONFLICT DO NOTHING")

    await lab.install(wrong.create_tables)
    process, sizes = psutil.Process(), []

    def progress(done: int, outcomes: Any) -> None:
        sizes.append((done, process.memory_info().rss))

    pair = [Actor("A", insert), Actor("B", insert)]
    done = 0
    while done < 10_000:
        report = await explore(lab, pair, fine, faults=2, switches=2, progress=progress)
        done += report.schedules
        gc.collect()
        sizes.append((done, process.memory_info().rss))
    early, late = sizes[len(sizes) // 5][1], sizes[-1][1]
    assert late - early < 16 << 20, f"{early >> 20} MiB, then {late >> 20} MiB"
