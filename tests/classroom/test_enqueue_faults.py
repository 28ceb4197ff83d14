"""Every fault at every step of the ways of lesson 05: each wrong way fails in its own manner only."""

import logging
import os

import pytest

from qlab.classroom.enqueue_faults import enqueue_reports, fault_table
from qlab.embedded import Servers


@pytest.mark.timeout(120)
async def test_each_way_fails_as_the_lesson_says(caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers()
    servers.pg_dsn, servers.pg_kind = os.environ["QLAB_PG_DSN"], os.environ["QLAB_PG_KIND"]
    with caplog.at_level(logging.WARNING):
        reports = await enqueue_reports(servers)
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []
    assert all(report.complete for report in reports.values())
    assert {way: set(report.outcomes) for way, report in reports.items()} == {
        "inside": {"once", "ghost"},
        "after": {"once", "lost"},
        "outbox": {"once"},
        "relay": {"once"},
        "forgetful": {"once", "twice"},
    }
    told = fault_table(reports).sentences
    assert told[0].startswith("add trong giao dịch: job ma: thêm job")
    assert "thêm job" in told[-1]
    assert "RPUSH" not in " ".join(told)  # every effect has the lesson's own word
