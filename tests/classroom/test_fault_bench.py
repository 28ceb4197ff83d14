"""The bench where a learner places the fault: guess first, then a real schedule is replayed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from qlab.classroom.fault_bench import FaultBench
from qlab.classroom.fault_schedule import FaultSchedule
from qlab.errors import QlabError
from qlab.testing.explorer.report import Report, Schedule
from tests.classroom.reports import CHARGE_FIRST, CRASH, KEY_FIRST

Replay = Callable[[str], Awaitable[Schedule]]


def bench(replay: Replay | None = None) -> tuple[FaultBench, list[str]]:
    asked: list[str] = []

    async def crash(seed: str) -> Schedule:
        asked.append(seed)
        return replace(CRASH, seed=seed)

    def with_replay(report: Report) -> Report:
        rows = tuple(
            replace(row, seeds={f: s for f, s in row.seeds.items() if row.outcomes[f]}) for row in report.rows
        )
        return replace(report, rows=rows, _replay=replay or crash)

    return FaultBench({"khoá trước": with_replay(KEY_FIRST), "tiền trước": with_replay(CHARGE_FIRST)}), asked


async def test_a_right_guess_is_told_and_the_schedule_shown() -> None:
    widget, asked = bench()
    widget.choose(protocol="tiền trước", index=1, fault=">", guess="twice")
    widget.go()
    assert widget.task is not None
    await widget.task
    assert asked == ["A1>"]
    assert "✓ Đúng như bạn đoán: <strong>hai lần</strong>." in widget.feedback.value
    assert "Đã thử 1 trong 22 ô, đoán đúng 1." in widget.feedback.value
    (shown,) = widget.stage.children
    assert isinstance(shown, FaultSchedule)
    assert shown.title == "tiền trước · trừ tiền, chết sau: hai lần"


async def test_a_wrong_guess_is_answered_and_the_next_one_starts_afresh() -> None:
    widget, _ = bench()
    widget.choose(index=0, fault="?", guess="once")
    widget.go()
    assert widget.task is not None
    await widget.task
    assert "✗ Bạn đoán đúng một lần, thật ra là <strong>hai lần</strong>." in widget.feedback.value
    assert "đoán đúng 0" in widget.feedback.value
    assert widget.guess == ""
    widget.go()
    assert "Còn thiếu" in widget.feedback.value


def test_it_asks_for_what_is_missing() -> None:
    widget, asked = bench()
    widget.start.click()
    assert "Còn thiếu" in widget.feedback.value
    widget.choose(index=0, fault=">")
    widget.start.click()
    assert "Còn thiếu" in widget.feedback.value
    assert asked == []


def test_clicks_choose_and_are_marked() -> None:
    widget, _ = bench()
    widget.protocols["tiền trước"].click()
    widget.effects[2].click()
    widget.faults["<"].click()
    widget.guesses["lost"].click()
    assert (widget.protocol, widget.index, widget.fault, widget.guess) == ("tiền trước", 2, "<", "lost")
    assert widget.effects[2].description == "● INSERT processed_job"
    assert widget.faults["<"].description == "● < chết trước"
    assert widget.guesses["once"].description == "○ đúng một lần"


def test_a_fault_that_cannot_happen_there_cannot_be_chosen() -> None:
    widget, _ = bench()
    widget.choose(index=1, fault="!")
    assert not widget.faults["!"].disabled
    widget.choose(index=0)
    assert widget.faults["!"].disabled
    assert widget.fault == ""


def test_another_protocol_has_other_effects() -> None:
    widget, _ = bench()
    assert len(widget.effects) == 2
    widget.choose(index=1)
    widget.choose(protocol="tiền trước")
    assert len(widget.effects) == 3
    assert widget.index == -1


async def test_nothing_can_be_pressed_while_a_schedule_runs() -> None:
    go_on = asyncio.Event()

    async def slow(seed: str) -> Schedule:
        await go_on.wait()
        return CRASH

    widget, _ = bench(slow)
    widget.choose(index=0, fault="<", guess="once")
    widget.go()
    assert widget.start.disabled
    assert widget.faults["<"].disabled
    go_on.set()
    assert widget.task is not None
    await widget.task
    assert not widget.start.disabled
    assert not widget.faults["<"].disabled


async def test_what_goes_wrong_is_said_in_one_sentence() -> None:
    async def broken(seed: str) -> Schedule:
        raise QlabError("the handler did something else")

    widget, _ = bench(broken)
    widget.choose(index=0, fault="<", guess="once")
    widget.go()
    assert widget.task is not None
    await widget.task
    assert "Không chạy được: the handler did something else" in widget.feedback.value
    assert not widget.start.disabled


def test_a_page_that_cannot_run_code_shows_what_there_is_to_try() -> None:
    widget, _ = bench()
    still = widget._repr_mimebundle_()
    assert "tiền trước: SELECT processed_job → trừ tiền → INSERT processed_job" in still["text/html"]
    assert "&lt; chết trước" in still["text/html"]
    assert "khoá trước: INSERT processed_job → trừ tiền" in still["text/plain"]


def test_reports_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="explore one actor"):
        FaultBench({"x": replace(KEY_FIRST, rows=())})
