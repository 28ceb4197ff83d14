"""The benchmark measures what it says: the adapter runs, wrong counts are refused, ratios point one way."""

import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks.__main__ import DOCS, main, options, section
from benchmarks.measure import Bench
from benchmarks.peers import PG_PEERS, QLAB, Peer, PeerError
from benchmarks.postgres import PgBench
from benchmarks.report import ratios, with_tables

PG_QUEUE = PG_PEERS[0]
pytestmark = pytest.mark.timeout(300)


def test_the_adapter_of_qlab_runs_every_workload(tmp_path, capsys):
    out = tmp_path / "results.json"
    assert main(["--quick", "--n", "200", "--peers", "qlab", "--sections", "", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["errors"] == []
    runs = {workload: figures[0] for workload, figures in result["runs"]["qlab"].items()}
    assert (runs["enqueue"]["n"], runs["drain"]["n"], runs["io"]["n"]) == (200, 200, 2000)
    assert runs["latency"]["n"] == 50
    assert runs["drain"]["rss_mib"] > 0
    assert set(result["ratios"].values()) == {None}
    assert "| qlab |" in capsys.readouterr().out


def test_the_queue_in_postgresql_is_measured_and_its_log_counted():
    errors, bench = [], PgBench()
    try:
        assert bench.enqueue(PG_QUEUE, 50)["per_s"] > 0
        drained = bench.drain(PG_QUEUE, 100)
    finally:
        bench.close()
    assert (drained["n"], errors) == (100, [])
    assert drained["wal_add"] > 100
    assert drained["wal_run"] > 200  # lent and ended: two writes


def test_a_section_that_fails_costs_only_itself(monkeypatch):
    def broken(quick):
        raise RuntimeError("no server")

    monkeypatch.setitem(sys.modules, "benchmarks.broken", SimpleNamespace(section=broken, __spec__=object()))
    result = {"errors": []}
    assert section("broken", options(["--quick"]), result) is None
    assert result["errors"] == ["broken: RuntimeError: no server"]
    assert section("not_there", options(["--quick"]), result) is None


def test_a_store_that_does_not_add_up_is_an_error():
    bench = Bench()
    try:
        with pytest.raises(PeerError, match="jobs in the store after 10 adds"):
            bench.enqueue(Peer("qlab", QLAB.adapter, (("LLEN", "nothing"),)), 10)
    finally:
        bench.close()


def test_above_one_always_means_that_qlab_is_better():
    runs = {
        "qlab": {
            "enqueue": [{"per_s": 300}], "drain": [{"per_s": 1000, "bulk_per_s": 900}],
            "latency": [{"p50": 2}],
        },
        "bullmq": {
            "enqueue": [{"per_s": 200}], "drain": [{"per_s": 500, "bulk_per_s": 300}],
            "latency": [{"p50": 5}],
        },
        "saq": {"drain": [{"per_s": 100}]},
        "arq": {"drain": [{"per_s": 250}, {"per_s": 50}, {"per_s": 60}]},
    }  # fmt: skip
    assert ratios(runs) == {
        "drain_vs_bullmq_node": 2.0, "drain_vs_best_python": 10.0, "enqueue_vs_bullmq_node": 1.5,
        "bulk_vs_bullmq_node": 3.0, "latency_vs_bullmq_node": 2.5,
    }  # fmt: skip


def test_a_report_replaces_the_tables_and_nothing_else():
    text = "# A\n<!-- tables: python -m benchmarks --report -->\nold\n<!-- end of tables -->\n## B\n"
    assert DOCS.read_text(encoding="utf-8").count("<!-- tables: python -m benchmarks --report -->\n") == 1
    once = with_tables(text, "| new |")
    assert once.startswith("# A\n")
    assert once.endswith("<!-- end of tables -->\n## B\n")
    assert ("| new |" in once, "old" in once) == (True, False)
    assert with_tables(once, "| new |") == once


def test_an_unknown_peer_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["--peers", "celery"])
    assert "unknown peer celery" in capsys.readouterr().err
