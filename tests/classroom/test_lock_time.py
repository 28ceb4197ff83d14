"""The calculator of lock lengths, driven without a page."""

import xml.etree.ElementTree as ET

import pytest

from qlab.classroom.lock_time import CASES, LockCalculator, Plan, draw


def test_the_chapters_figures_leave_a_margin_of_20() -> None:
    plan = LockCalculator().plan
    assert (plan.worst, plan.lock, plan.spare) == (55, 75, 20)
    assert plan.sentences()[0] == "Chậm nhất: 15 s × 3 lần gọi + 2 × 5 s nghỉ = **55 s**."
    assert "còn dư **20 s**" in plan.sentences()[1]


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(15, 2, 5, 10), "Khoá hết ở giây 10, khi lần gọi 1 còn chờ"),
        (Plan(15, 2, 5, 17), "khi client đang nghỉ trước lần gọi 2"),
        (Plan(15, 2, 5, 40), "khi lần gọi 3 còn chờ"),
        (Plan(80, 2, 5, 75), "Khoá hết ở giây 75, khi lần gọi 1 còn chờ"),
        (Plan(15, 0, 5, 15), "Vừa khít 15 s"),
        (Plan(15, 0, 5, 16), "còn dư **1 s**"),
        (Plan(0, 0, 0, 0), "Vừa khít 0 s"),
    ],
)
def test_the_verdict_names_the_moment(plan: Plan, says: str) -> None:
    assert says in plan.sentences()[1]


def test_typing_redraws_formula_picture_and_verdict() -> None:
    calculator = LockCalculator()
    calculator.retries.value = 0
    assert "15 s × 1 lần gọi + 0 × 5 s nghỉ = <strong>15 s</strong>" in calculator.said.value
    assert 'role="status"' in calculator.said.value
    calculator.lock.value = 5
    assert "✗ Khoá hết ở giây 5" in calculator.said.value
    assert "không ai giữ khoá: giây 5 đến 15" in calculator.picture.value


def test_a_case_fills_in_all_four_numbers() -> None:
    calculator = LockCalculator()
    calculator.cases["defaults"].click()
    assert calculator.plan == CASES["defaults"]
    assert calculator.plan.worst == 250
    assert "✗" in calculator.said.value


def test_numbers_out_of_range_are_brought_back() -> None:
    calculator = LockCalculator()
    calculator.timeout.value = -4
    calculator.retries.value = 99
    assert (calculator.plan.timeout, calculator.plan.retries) == (0, 10)


@pytest.mark.parametrize(
    "plan", [*CASES.values(), Plan(0, 0, 0, 0), Plan(0, 10, 0, 3600), Plan(3600, 10, 9, 0)]
)
def test_the_picture_is_well_formed_and_told_in_words(plan: Plan) -> None:
    root = ET.fromstring(draw(plan))
    title, described = root[0].text, root[1].text
    assert title is not None
    assert f"khoá {plan.lock:g} giây" in title
    assert described is not None
    assert described.count("lần gọi") == plan.retries + 1
    right = max(
        float(box.get("x", 0)) + float(box.get("width", 0)) for box in root.iter() if box.tag.endswith("rect")
    )
    assert right <= 660


def test_a_page_that_cannot_run_code_shows_every_case() -> None:
    calculator = LockCalculator()
    bundle = calculator._repr_mimebundle_()
    for said in (bundle["text/plain"], bundle["text/html"]):
        assert said.count("✓ Khoá") == 2
        assert said.count("✗ Khoá") == 2
    assert "<svg" in bundle["text/html"]
    calculator.lock.value = 3
    assert calculator._repr_mimebundle_()["text/html"] == bundle["text/html"]
