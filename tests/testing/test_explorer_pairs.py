"""Two workers at once: interleavings, locks, deadlocks, and what is not explored."""

import psycopg
import pytest

from qlab.classroom.wrong import charging as wrong
from qlab.testing import Actor, Evidence, FaultLab, Provider, World, explore
from tests.testing.explored import PATIENT, charged, charging, connect


async def test_charge_first_fails_without_any_fault(lab: FaultLab):
    await lab.install(wrong.create_tables)
    pair = [charging(wrong.charge_first, "A"), charging(wrong.charge_first, "B")]
    report = await explore(lab, pair, charged(), faults=0, switches=1, provider=Provider(dedupe=False))
    assert report.verdict == "twice: A1 B1"
    assert report.outcomes == {"once": 2, "twice": 2}
    assert [(step.name, step.effect) for step in report.shortest_failure.effects] == [
        ("A", "SELECT processed_job"),
        ("B", "SELECT processed_job"),
        ("B", "CHARGE o1"),
        ("B", "INSERT processed_job"),
        ("A", "CHARGE o1"),
        ("A", "INSERT processed_job"),
    ]


async def test_the_right_way_with_two_workers_and_a_fault(lab: FaultLab):
    """Lease and token; one order in one job, so that the job's id is as good a key as any."""
    await lab.install(wrong.create_tables)
    pair = [charging(wrong.job_id_as_key, "A"), charging(wrong.job_id_as_key, "B")]
    report = await explore(lab, pair, charged("charge_key"), switches=1, rules=PATIENT)
    assert report.verdict == "no failure within 1 fault and 1 switch"
    assert report.outcomes == {"once": 192}


@pytest.mark.slow  # 370 schedules
async def test_two_faults_show_what_the_token_is_for(lab: FaultLab):
    """A stalls after its claim, A' takes over, fails and releases; A wakes up and writes DONE anyway."""
    await lab.install(wrong.create_tables)
    report = await explore(
        lab, [charging(wrong.lease_without_token)], charged("charge_key"), rules=PATIENT, faults=2
    )
    assert report.shortest_failure.faults == 2
    assert report.shortest_failure.outcome == "half"
    stale = await report.replay("A1~ A'1! A1")
    assert [step.result for step in stale.steps if step.effect == "ack"] == [""]


async def count_both(connection: psycopg.AsyncConnection) -> None:
    await wrong.create_tables(connection)
    await connection.execute("INSERT INTO order_count VALUES ('other', 0) ON CONFLICT DO NOTHING")


def counter(name: str, *rows: str) -> Actor:
    async def handler(world: World) -> None:
        async with await connect(world, autocommit=False) as connection:
            for row in rows:
                await connection.execute("UPDATE order_count SET n = n + 1 WHERE name = %s", [row])

    return Actor(name, handler)


async def counted(evidence: Evidence) -> str:
    return "once" if set(await evidence.rows("SELECT n FROM order_count")) == {(2,)} else "lost"


async def test_a_deadlock_is_ended_by_the_server_and_its_victim_comes_again(lab: FaultLab):
    await lab.install(count_both)
    pair = [counter("A", "orders", "other"), counter("B", "other", "orders")]
    report = await explore(lab, pair, counted, faults=0, switches=2)
    assert report.verdict == "no failure within 0 faults and 2 switches"
    crossed = await report.replay("A1 B1 A1")
    assert "DeadlockDetected" in next(step.result for step in crossed.steps if step.effect == "fail")
    again = await explore(lab, pair, counted, faults=0, switches=2)
    assert again.digest == report.digest


async def test_who_waits_for_a_lock_is_served_in_order_of_arrival(lab: FaultLab):
    """B and A' wait for the row of A, which has stalled. When A commits, both wake up and race."""
    await lab.install(count_both)
    report = await explore(lab, [counter("A", "orders"), counter("B", "orders")], counted, faults=0)
    ends = []
    for _ in range(40):  # without the line it is the wrong way round in one of 25 or so
        schedule = await report.replay("A1 B1 A0~ A'1 A1")
        ends.append([step.name for step in schedule.steps if step.effect == "ack"])
    assert ends == [["A", "B", "A'"]] * 40


async def test_an_advisory_lock_keeps_two_apart(lab: FaultLab):
    inside: list[str] = []

    def actor(name: str) -> Actor:
        async def handler(world: World) -> None:
            async with await connect(world) as connection:
                await connection.execute("SELECT pg_advisory_lock(1)")
                inside.append(name)
                await world.provider.charge("o1", 100)
                inside.append(name)
                await connection.execute("SELECT pg_advisory_unlock(1)")

        return Actor(name, handler)

    async def apart(evidence: Evidence) -> str:
        one, two, three, four = inside[-4:]
        inside.clear()
        return "once" if one == two and three == four else "half"

    report = await explore(lab, [actor("A"), actor("B")], apart, faults=0, switches=3)
    assert report.schedules > 1
    assert report.verdict == "no failure within 0 faults and 3 switches"
