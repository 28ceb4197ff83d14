"""The report of an exploration as data: text, JSON and back."""

from qlab.testing import FAULTS, Report, Row, Schedule, Step

STEPS = (
    Step("A", 0, "deliver", ".", 0.0, "queue", ""),
    Step("A", 0, "CHARGE o1", ">", 0.0, "provider", "ch_1"),
    Step("A", 1, "CHARGE o1", ".", 35.0, "provider", "ch_2"),
)
FAILURE = Schedule("A1>", "twice", 1, 0, STEPS)
ROWS = (
    Row("A", 1, "SELECT processed_job", {"<": "once", ">": "once", "~": "twice", "!": None, "?": "once"}),
    Row("A", 2, "CHARGE o1", dict.fromkeys(FAULTS, "once"), {"<": "A1<"}),
)


def report(failure: Schedule | None = FAILURE, complete: bool = True) -> Report:
    return Report({"once": 12, "twice": 8}, 20, 0.1, 1, 0, complete, ROWS, failure, "ab12")


def test_a_verdict_names_the_shortest_failure_or_the_bounds():
    assert report().verdict == "twice: A1>"
    assert report(failure=None).verdict == "no failure within 1 fault and 0 switches"


def test_a_verdict_after_a_limit_says_so():
    assert report(None, complete=False).verdict == (
        "no failure in 20 schedules within 1 fault and 0 switches; stopped at a limit"
    )


def test_a_table_has_a_line_for_each_effect_and_a_dash_for_what_cannot_happen():
    head, first, second = report().table().splitlines()
    assert head.split("  ")[0] == "effect"
    assert first.split() == ["1", "A", "SELECT", "processed_job", "once", "once", "twice", "-", "once"]
    assert second.split()[-5:] == ["once"] * 5


def test_a_trace_names_the_delivery_the_fault_and_what_the_server_did():
    lines = FAILURE.trace().splitlines()
    assert lines[0] == "seed 'A1>' -> twice"
    assert lines[2].split() == ["0.0", "s", "A", "provider", "CHARGE", "o1", "crash", "after", "(ch_1)"]
    assert lines[3].split() == ["35.0", "s", "A'", "provider", "CHARGE", "o1", "ch_2"]
    assert [step.effect for step in FAILURE.effects] == ["CHARGE o1", "CHARGE o1"]


def test_a_report_survives_json():
    for one in (report(), report(failure=None)):
        assert Report.from_json(one.to_json()) == one
