"""The crash bench and the live view, driven without a page."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from qlab.classroom import live, notebook
from qlab.classroom.crash import CrashBench
from qlab.classroom.processes import LabError
from qlab.classroom.story import Event
from qlab.classroom.timeline import Timeline

TARGETS = {"work_first": "charge:worker", "ack_first": "ack_first:worker"}
CHARGES = {("charge:worker", "between"): 2, ("ack_first:worker", "between"): 0}


class Bench:
    """A bench whose runs are short: as many effects as the real ones have."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.widget = CrashBench(self.run, TARGETS)  # type: ignore[arg-type]

    async def run(self, target: str, point: str) -> Any:
        self.asked.append((target, point))
        charges = CHARGES.get((target, point), 1)
        events = [Event(0, "taken", "A", 1, 1)] + [Event(1, "effect", "A", note="x")] * charges
        return SimpleNamespace(count=lambda kind: charges, timeline=lambda title: Timeline(events, title))

    async def press(self, order: str, point: str, guess: int) -> str:
        self.widget.orders[order].click()
        self.widget.points[point].click()
        self.widget.guesses[guess].click()
        self.widget.start.click()
        assert self.widget.task is not None
        await self.widget.task
        return str(self.widget.feedback.value)


async def test_a_wrong_guess_is_answered_with_the_reason() -> None:
    bench = Bench()
    said = await bench.press("work_first", "between", 1)
    assert "Bạn đoán 1, thật ra là 2 lần." in said
    assert "lần này giao lại là sai" in said
    assert bench.asked == [("charge:worker", "between")]
    assert "trừ tiền rồi ACK, chết giữa hai bước: trừ tiền 2 lần" in bench.widget.picture.value


async def test_a_right_guess_is_said_to_be_right() -> None:
    bench = Bench()
    assert "Đúng như bạn đoán: 0 lần." in await bench.press("ack_first", "between", 0)
    assert bench.asked == [("ack_first:worker", "between")]
    assert "0 lần" in bench.widget.table.value


async def test_after_all_six_the_pattern_is_named() -> None:
    bench = Bench()
    for order in TARGETS:
        for point in ("before", "between", "after"):
            said = await bench.press(order, point, 1)
            assert ("Đủ sáu ô" in said) == (len(bench.asked) == 6)
    assert "?" not in bench.widget.table.value


async def test_nothing_runs_before_a_place_and_a_guess_are_chosen() -> None:
    bench = Bench()
    bench.widget.start.click()
    assert "Còn thiếu" in bench.widget.feedback.value
    bench.widget.points["after"].click()
    bench.widget.start.click()
    assert "Còn thiếu" in bench.widget.feedback.value
    assert bench.asked == []
    assert bench.widget.points["after"].description.startswith("●")
    assert bench.widget.points["before"].description.startswith("○")


async def test_the_line_shows_the_steps_in_the_order_chosen() -> None:
    bench = Bench()
    bench.widget.orders["ack_first"].click()
    shown = [step.value for step in bench.widget.steps]
    assert "nhận việc" in shown[0]
    assert "ACK" in shown[1]
    assert "trừ tiền" in shown[2]


async def test_while_it_runs_nothing_else_can_be_pressed() -> None:
    going = asyncio.Event()

    async def slow(target: str, point: str) -> Any:
        await going.wait()
        raise LabError("Worker A không lên được")

    widget = CrashBench(slow, TARGETS)
    widget.points["before"].click()
    widget.guesses[1].click()
    widget.start.click()
    assert widget.start.disabled
    assert widget.points["after"].disabled
    going.set()
    assert widget.task is not None
    await widget.task
    assert "Worker A không lên được" in widget.feedback.value
    assert not widget.start.disabled


def test_no_two_buttons_have_the_same_name() -> None:
    widget = CrashBench(Bench().run, TARGETS)
    buttons = [*widget.orders.values(), *widget.points.values(), *widget.guesses.values(), widget.start]
    assert len({button.description.strip("○● ") for button in buttons}) == len(buttons) == 9


async def test_after_a_run_the_keyboard_is_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    widget = CrashBench(Bench().run, TARGETS)
    enabled_at_focus: list[bool] = []
    monkeypatch.setattr(widget.start, "focus", lambda: enabled_at_focus.append(not widget.start.disabled))
    widget.choose(point="before", guess=1)
    widget.start.click()
    assert widget.task is not None
    await widget.task
    assert enabled_at_focus == [True]


async def test_a_press_in_another_thread_runs_on_the_loop_of_the_cell() -> None:
    """JupyterLab's subshells: there the lab's connections would belong to a different loop."""
    homes: list[asyncio.AbstractEventLoop] = []
    bench = Bench()

    async def run(target: str, point: str) -> Any:
        homes.append(asyncio.get_running_loop())
        return await bench.run(target, point)

    widget = CrashBench(run, TARGETS)
    widget.choose(point="before", guess=1)

    async def press() -> None:
        widget.start.click()

    await asyncio.to_thread(asyncio.run, press())
    async with asyncio.timeout(10):
        while "Đúng như bạn đoán" not in widget.feedback.value:
            await asyncio.sleep(0.01)
    assert homes == [asyncio.get_running_loop()]


async def test_whatever_goes_wrong_is_said() -> None:
    async def breaks(target: str, point: str) -> Any:
        raise TimeoutError

    widget = CrashBench(breaks, TARGETS)
    widget.choose(point="before", guess=1)
    widget.start.click()
    assert widget.task is not None
    await widget.task
    assert "Không chạy được: TimeoutError" in widget.feedback.value
    assert not widget.start.disabled


def test_a_static_page_shows_the_question_and_the_empty_cells() -> None:
    bundle = Bench().widget._repr_mimebundle_()
    assert "Tự đặt chỗ chết" in bundle["text/html"]
    assert bundle["text/html"].count("<td") == 6
    assert "nhận việc → ACK → trừ tiền" in bundle["text/plain"]


def test_a_bench_needs_a_worker_for_each_order() -> None:
    with pytest.raises(ValueError, match="a worker for each of work_first, ack_first"):
        CrashBench(Bench().run, {"work_first": "charge:worker"})  # type: ignore[arg-type]


async def test_the_live_view_is_drawn_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    cleared: list[bool] = []
    monkeypatch.setattr(live, "watched", lambda: True)
    monkeypatch.setattr(notebook, "show", shown.append)
    monkeypatch.setattr(notebook, "clear", lambda: cleared.append(True))
    recording: Any = SimpleNamespace(events=[Event(0.5, "taken", "A", 1, 1)], elapsed=2.0)
    async with live.shown(recording):
        async with asyncio.timeout(10):
            while not (shown and "<svg" in shown[0].value):
                await asyncio.sleep(0.01)
        assert "Đang chạy…" in shown[0].value
        assert cleared == []
    assert cleared == [True]
    assert shown[0].comm is None


async def test_without_a_page_there_is_no_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shown: list[Any] = []
    monkeypatch.setattr(notebook, "show", shown.append)
    recording: Any = SimpleNamespace(events=[Event(0.5, "taken", "A", 1, 1)], elapsed=2.0)
    async with live.shown(recording):
        pass
    assert shown == []
    monkeypatch.setenv("JPY_SESSION_NAME", "03.ipynb")
    assert not live.watched()
