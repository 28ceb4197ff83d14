"""The fault table of each way to charge an order: the outcome of every fault at every effect."""

import pytest

from qlab.classroom.wrong import charging as wrong
from qlab.testing import FaultLab, Provider, Report, explore
from tests.testing.explored import PATIENT, charged, charging

CASES = {
    # way, table with a status, the provider dedupes
    "processed_job_first": (wrong.processed_job_first, None, False),
    "charge_first": (wrong.charge_first, None, False),
    "job_id_as_key": (wrong.job_id_as_key, "charge_key", False),
    "dedupe": (wrong.job_id_as_key, "charge_key", True),
    "lease_without_release": (wrong.lease_without_release, "charge_key", True),
    "lease_without_token": (wrong.lease_without_token, "charge_key", True),
}
# For each effect: < crash before, > crash after, ~ stall, ! error, ? reply lost; "." is once.
TABLES = {
    "processed_job_first": (
        "A0>",
        {"INSERT processed_job": ". lost . - lost", "CHARGE o1": "lost . . lost ."},
    ),
    "charge_first": (
        "A1>",
        {
            "SELECT processed_job": ". . twice - .",
            "CHARGE o1": ". twice twice . twice",
            "INSERT processed_job": "twice . twice - .",
        },
    ),
    # With one order in one job, its id is as good a key as any: this is lease and token, without dedupe.
    "job_id_as_key": (
        "A1>",
        {
            "INSERT charge_key": ". . . - stuck",
            "CHARGE o1": ". twice twice . twice",
            "UPDATE charge_key": "twice . twice - .",
        },
    ),
    # The claim is committed, its reply lost; then the retries end before the lease does.
    "dedupe": (
        "A0?",
        {"INSERT charge_key": ". . . - stuck", "CHARGE o1": ". . . . .", "UPDATE charge_key": ". . . - ."},
    ),
    "lease_without_release": (
        "A0?",
        {
            "INSERT charge_key": ". . . - stuck",
            "CHARGE o1": ". . . stuck stuck",
            "UPDATE charge_key": ". . . - .",
        },
    ),
    # One fault is not enough to show that the token is missing.
    "lease_without_token": (
        "A0?",
        {"INSERT charge_key": ". . . - stuck", "CHARGE o1": ". . . . .", "UPDATE charge_key": ". . . - ."},
    ),
}


def words(report: Report) -> dict[str, str]:
    """The rows in the short form of TABLES."""
    short = {"once": ".", None: "-"}
    return {
        row.effect: " ".join(short.get(word, word) for word in row.outcomes.values()) for row in report.rows
    }


@pytest.mark.parametrize("case", CASES)
async def test_the_fault_table_of(case: str, lab: FaultLab):
    way, table, dedupe = CASES[case]
    seed, rows = TABLES[case]
    await lab.install(wrong.create_tables)
    report = await explore(lab, [charging(way)], charged(table), provider=Provider(dedupe))
    assert words(report) == rows
    assert report.shortest_failure.seed == seed
    assert report.verdict == f"{report.shortest_failure.outcome}: {seed}"
    assert await report.replay(seed) == report.shortest_failure


async def test_nothing_fails_once_the_retries_outlast_the_lease(lab: FaultLab):
    await lab.install(wrong.create_tables)
    report = await explore(
        lab,
        [charging(wrong.job_id_as_key)],
        charged("charge_key"),
        rules=PATIENT,
        provider=Provider(dedupe=True),
    )
    assert report.verdict == "no failure within 1 fault and 0 switches"
    assert report.outcomes == {"once": 20}
