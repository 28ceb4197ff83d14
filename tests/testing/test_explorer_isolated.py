"""Actors as processes killed with SIGKILL: the same results, and nothing of them stays."""

import os
from functools import partial

import pytest

from qlab.classroom.wrong import charging as wrong
from qlab.postgres import idempotency, outbox
from qlab.testing import (
    Actor,
    Evidence,
    ExplorerError,
    FaultLab,
    Provider,
    Unresponsive,
    Unsupported,
    explore,
)
from tests.testing import isolated
from tests.testing import test_explorer_clients as clients
from tests.testing.explored import charge, charged, charging


async def test_the_same_table_and_digest_as_in_process(lab: FaultLab):
    await lab.install(wrong.create_tables)
    for actors, switches in (
        ([charging(wrong.charge_first)], 0),
        (
            [charging(wrong.processed_job_first, "A"), charging(wrong.processed_job_first, "B")],
            1,
        ),
    ):
        here, there = [
            await explore(
                lab, actors, charged(), switches=switches, provider=Provider(dedupe=False), isolate=isolate
            )
            for isolate in (False, True)
        ]
        assert there.table() == here.table()
        assert there.digest == here.digest
        assert (await there.replay(there.shortest_failure.seed)).outcome == there.shortest_failure.outcome


@pytest.mark.parametrize("handler", [clients.work_by_hand, clients.relay_to_qlab, clients.with_a_heartbeat])
async def test_qlab_itself_in_processes(lab: FaultLab, handler):
    """Whoever runs them may be unable to read qlab's files: the SQL and the Lua are loaded before."""

    async def fine(evidence: Evidence) -> str:
        return "once"

    async def begin(evidence: Evidence) -> None:
        await clients.one_job(evidence)
        await clients.two_messages(evidence)

    await lab.install(outbox.install)
    await lab.install(idempotency.install)
    here, there = [
        await explore(lab, [Actor("A", handler)], fine, setup=begin, limit_schedules=4, isolate=isolate)
        for isolate in (False, True)
    ]
    assert len(here.rows) >= 4
    assert there.digest == here.digest


async def test_time_is_virtual_there_too(lab: FaultLab):
    report = await explore(lab, [Actor("A", isolated.sleep_and_charge)], charged(), faults=0, isolate=True)
    schedule = await report.replay("-")
    assert [(step.effect, step.at) for step in schedule.effects] == [("CHARGE o1", 5.0)]


async def test_a_worker_that_dies_by_itself_is_delivered_again(lab: FaultLab):
    report = await explore(lab, [Actor("A", isolated.die_by_itself)], charged(), faults=0, isolate=True)
    assert report.outcomes == {"once": 1}
    steps = (await report.replay("-")).steps  # a folder of its own: "seen" of the other schedule is gone
    assert [step.effect for step in steps] == ["deliver", "dead", "deliver", "CHARGE o1", "ack"]


async def test_what_spins_is_ended(lab: FaultLab):
    with pytest.raises(Unresponsive, match="A did not come to rest within 1 s"):
        await explore(lab, [Actor("A", isolated.spin)], charged(), isolate=True, patience=1.0)


async def test_what_an_actor_leaves_behind_reaches_nothing(lab: FaultLab):
    async def untouched(evidence: Evidence) -> str:
        return "half" if await evidence.rows("SELECT 1 FROM processed_job") else "once"

    await lab.install(wrong.create_tables)
    report = await explore(lab, [Actor("A", isolated.leave_something_behind)], untouched, isolate=True)
    assert report.outcomes == {"once": 6}
    assert [row.effect for row in report.rows] == ["SELECT"]


async def test_actors_of_root_have_a_user_of_their_own_and_no_way_round_the_proxies(lab: FaultLab):
    """Without root they run as ourselves, and could look into our folders: the documented limit."""
    actor = Actor("A", isolated.look_around)
    report = await explore(lab, [actor], charged(), faults=0, isolate=True, uid=60_941)
    charges = [step.effect for step in (await report.replay("-")).effects if step.store == "provider"]
    assert charges == (["CHARGE 60941"] if os.geteuid() == 0 else [])


async def test_a_handler_that_cannot_be_imported_is_refused(lab: FaultLab):
    async def local(world) -> None: ...

    with pytest.raises(ExplorerError, match="top level of a module"):
        await explore(lab, [Actor("A", local)], charged(), isolate=True)


async def test_a_thread_is_refused_there_too(lab: FaultLab):
    with pytest.raises(Unsupported, match="thread"):
        await explore(lab, [Actor("A", isolated.use_a_thread)], charged(), isolate=True)


async def test_a_handler_with_arguments_goes_as_a_partial(lab: FaultLab):
    await lab.install(wrong.create_tables)
    actor = Actor("A", partial(charge, wrong.processed_job_first))
    report = await explore(lab, [actor], charged(), faults=0, isolate=True)
    assert report.outcomes == {"once": 1}
