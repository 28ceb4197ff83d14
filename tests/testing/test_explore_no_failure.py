"""`assert_no_failure`, both ways: a claim that holds, one that does not, and one that was not fully tried."""

import pytest

from qlab.classroom.wrong import charging as wrong
from qlab.testing import FailureFound, FaultLab, Provider, Schedule, Step, assert_no_failure
from qlab.testing.explorer.no_failure import in_words
from tests.testing.explored import PATIENT, charged, charging

WITHOUT_DEDUPE = Provider(dedupe=False)


@pytest.fixture
async def tables(lab: FaultLab) -> FaultLab:
    await lab.install(wrong.create_tables)
    return lab


async def test_a_claim_that_holds_returns_the_report(tables: FaultLab):
    way = [charging(wrong.job_id_as_key)]
    report = await assert_no_failure(tables, way, charged("charge_key"), rules=PATIENT)
    assert report.complete
    assert set(report.outcomes) == {"once"}


async def test_a_claim_that_does_not_hold_is_told_by_its_shortest_schedule(tables: FaultLab):
    with pytest.raises(FailureFound) as failure:
        await assert_no_failure(tables, [charging(wrong.charge_first)], charged(), provider=WITHOUT_DEDUPE)
    assert str(failure.value).splitlines() == [
        '"twice" within 1 fault and 0 switches; 20 schedules: 12 once, 8 twice',
        'seed "A1>" ends "twice":',
        "  1.     0.0 s  the queue delivers the job to A",
        "  2.     0.0 s  A: SELECT processed_job (postgres) -> SELECT 0",
        "  3.     0.0 s  A: CHARGE o1 (provider) is done -> ch_1, but A dies before it sees the reply",
        "  4.     0.0 s  A is dead: nobody acknowledges the job",
        "  5.    35.0 s  the queue delivers the job to A', since A never acknowledged it",
        "  6.    35.0 s  A': SELECT processed_job (postgres) -> SELECT 0",
        "  7.    35.0 s  A': CHARGE o1 (provider) -> ch_2",
        "  8.    35.0 s  A': INSERT processed_job (postgres) -> INSERT 0 1",
        "  9.    35.0 s  A' acknowledges the job",
        'To run this schedule alone, pass seed="A1>".',
    ]
    assert isinstance(failure.value, AssertionError)
    assert failure.value.schedule == failure.value.report.shortest_failure


async def test_the_seed_of_the_message_runs_that_schedule_alone(tables: FaultLab):
    way = [charging(wrong.charge_first)]
    with pytest.raises(FailureFound, match='seed "A1>" ends "twice"') as failure:
        await assert_no_failure(tables, way, charged(), seed="A1>", provider=WITHOUT_DEDUPE)
    assert failure.value.report.schedules == 1
    await assert_no_failure(tables, way, charged(), seed="A1<", provider=WITHOUT_DEDUPE)


async def test_what_was_not_fully_tried_is_no_claim(tables: FaultLab):
    way = [charging(wrong.job_id_as_key)]
    with pytest.raises(FailureFound, match="stopped at a limit: raise the limit, or claim less"):
        await assert_no_failure(tables, way, charged("charge_key"), rules=PATIENT, limit_schedules=3)


async def test_two_workers_and_no_fault_are_enough_for_a_check_before_the_act(tables: FaultLab):
    pair = [charging(wrong.charge_first, name) for name in "AB"]
    with pytest.raises(FailureFound, match='"twice" within 0 faults and 1 switch;'):
        await assert_no_failure(tables, pair, charged(), faults=0, switches=1, provider=WITHOUT_DEDUPE)


def told(*steps: Step) -> list[str]:
    return [
        line.partition(" s  ")[2] for line in in_words(Schedule("A0", "once", 1, 0, steps)).splitlines()[1:]
    ]


def test_stalls_errors_and_lost_replies_in_words():
    def step(name: str, effect: str, fault: str = ".", store: str = "redis", result: str = "") -> Step:
        return Step(name[0], len(name) - 1, effect, fault, 0.0, store, result)

    assert told(
        step("A", "SET lock", "?", result="OK"),
        step("A", "fail", store="queue"),
        step("A'", "deliver", store="queue"),
        step("A'", "GET done", "~"),
        step("A''", "deliver", store="queue"),
        step("A''", "CHARGE o1", "!", "provider", "503"),
        step("A''", "GET done", "<"),
        step("A'", "GET done", result="nil"),
        step("A'", "give up", store="queue"),
    ) == [
        "A: SET lock (redis) is done -> OK, but the reply is lost and A takes it for a failure",
        "A reports a failure",
        "the queue delivers the job to A', since A failed",
        "A' stalls just before GET done (redis), for longer than its lease",
        "the queue delivers the job to A'', since the lease of A' ran out before A' acknowledged it",
        "A'': CHARGE o1 (provider) fails for a moment -> 503: nothing happens there",
        "A'' is about to do GET done (redis) and dies: nothing happens there",
        "A' wakes up and goes on; A': GET done (redis) -> nil",
        "no tries are left: the queue gives the job up",
    ]
