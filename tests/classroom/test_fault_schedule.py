"""A schedule as a picture with a slider and as sentences: they tell the same, and the keyboard is enough."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from qlab.classroom.fault_schedule import FaultSchedule
from qlab.testing.explorer.report import Schedule
from tests.classroom.reports import CRASH, STALL, STUCK, step

SVG = "{http://www.w3.org/2000/svg}"
SCHEDULES = {"crash": CRASH, "stall": STALL, "stuck": STUCK}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_crash_in_words() -> None:
    assert FaultSchedule(CRASH).sentences == [
        "A nhận việc; từ đây A giữ khoá của việc này.",
        "A làm «SELECT processed_job» ở PostgreSQL, hồi âm SELECT 0.",
        "Ở cổng thanh toán, «trừ tiền» đã xong, hồi âm ch_1, nhưng A chết trước khi thấy hồi âm.",
        "A đã chết: không còn ai gia hạn khoá, cũng không ai xác nhận.",
        "Không thấy A xác nhận: 35 giây sau, hạn giữ việc hết, việc được giao lại và A' nhận.",
        "A' làm «SELECT processed_job» ở PostgreSQL, hồi âm SELECT 0.",
        "A' làm «trừ tiền» ở cổng thanh toán, hồi âm ch_2.",
        "A' làm «INSERT processed_job» ở PostgreSQL, hồi âm INSERT 0 1.",
        "A' xác nhận (ACK): hàng đợi coi việc này là xong.",
        "Kết cục: hai lần. Cùng một tác dụng xảy ra thêm một lần nữa.",
    ]


def test_a_stalled_worker_is_taken_over_and_wakes_up() -> None:
    told = FaultSchedule(STALL).sentences
    assert "A' nhận lại việc, vì khoá của A hết hạn trước khi A kịp xác nhận." in told[3]
    assert told[8].startswith("A tỉnh lại, không biết mình đã mất khoá")
    assert told[10] == "A cũng xác nhận, nhưng việc này đã có người xác nhận trước rồi."


def test_an_error_is_retried_until_the_queue_gives_up() -> None:
    told = FaultSchedule(STUCK).sentences
    assert "hồi âm rơi mất: A còn sống và tưởng là hỏng" in told[1]
    assert told[3] == "A báo lỗi, nên 1 giây sau việc được làm lại: A' nhận."
    assert told[6] == "Hết lượt thử: hàng đợi thôi không giao việc này nữa."
    assert told[7].startswith("Kết cục: kẹt.")


@pytest.mark.parametrize(("fault", "said"), [("<", "không hề hay biết"), ("!", "lỗi tạm, hồi âm 503")])
def test_the_other_faults_in_words(fault: str, said: str) -> None:
    result = "503" if fault == "!" else ""
    steps = (step("A", "deliver"), step("A", "CHARGE o1", fault, result=result))
    assert said in FaultSchedule(Schedule(f"A0{fault}", "once", 1, 0, steps)).sentences[1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_picture_has_a_lane_for_each_delivery_and_store_and_a_label_for_each_step(name: str) -> None:
    words = texts(FaultSchedule(SCHEDULES[name]).svg())
    for step_ in SCHEDULES[name].steps:
        lane = f"giao lại {step_.name}" if step_.delivery else f"lần giao {step_.name}"
        assert lane in words
    assert {"postgres": "PostgreSQL", "redis": "Redis"}[SCHEDULES[name].effects[0].store] in words
    labels = [
        word for word in words if word.startswith(("SELECT p", "INSERT p", "trừ tiền", "tỉnh lại", "SET"))
    ]
    assert len(labels) >= len(SCHEDULES[name].effects)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("upto", [None, 1, 4])
def test_nothing_lies_outside_the_picture(name: str, upto: int | None) -> None:
    root = ET.fromstring(FaultSchedule(SCHEDULES[name]).svg(upto))
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    for element in root.iter():
        if element.get("x") and element.tag == f"{SVG}text":
            assert 0 <= float(element.get("x") or 0) <= width
            assert 0 <= float(element.get("y") or 0) <= height


def test_money_is_drawn_where_it_moved_and_not_where_an_old_charge_came_back() -> None:
    again = tuple(replace(one, result="ch_1") if one.result == "ch_2" else one for one in CRASH.steps)
    refused = tuple(replace(one, result="503") if one.result == "ch_2" else one for one in CRASH.steps)
    coins = [
        texts(FaultSchedule(replace(CRASH, steps=s)).svg()).count("₫") for s in (CRASH.steps, again, refused)
    ]
    assert coins == [2, 1, 1]
    assert texts(FaultSchedule(STALL).svg()).count("₫") == 2


def test_a_jump_of_the_clock_is_written_between_two_steps() -> None:
    assert texts(FaultSchedule(CRASH).svg()).count("35 giây sau") == 1


def test_the_picture_and_its_text_are_the_same_every_time() -> None:
    assert FaultSchedule(STALL).svg() == FaultSchedule(STALL).svg()
    assert repr(FaultSchedule(STALL)) == repr(FaultSchedule(STALL))


def test_the_slider_and_the_buttons_walk_through_the_steps() -> None:
    shown = FaultSchedule(CRASH)
    start, back, forward = shown.buttons
    assert shown.slider.value == shown.slider.max == 9
    assert "Kết cục" in shown.told.value
    start.click()
    assert shown.slider.value == 1
    assert "1. A nhận việc" in shown.told.value
    assert "fs-here" in shown.picture.value.split("</style>")[-1]
    back.click()
    assert shown.slider.value == 1
    forward.click()
    assert "2. A làm «SELECT processed_job»" in shown.told.value
    shown.slider.value = 9
    forward.click()
    assert shown.slider.value == 9


def test_a_screen_reader_is_told_of_each_step() -> None:
    shown = FaultSchedule(CRASH)
    shown.slider.value = 3
    assert 'role="status"' in shown.told.value


def test_a_page_that_cannot_run_code_has_the_picture_and_all_the_words() -> None:
    still = FaultSchedule(CRASH)._repr_mimebundle_()
    assert "<svg" in still["text/html"]
    assert still["text/html"].count("<li>") == 10
    assert "3. Ở cổng thanh toán" in still["text/plain"]


def test_a_lesson_names_the_effects() -> None:
    shown = FaultSchedule(CRASH, "Vì sao hai lần", names={"SELECT processed_job": "xem sổ"})
    assert "A làm «xem sổ» ở PostgreSQL, hồi âm SELECT 0." in shown.sentences
    assert {"xem sổ", "Vì sao hai lần"} <= set(texts(shown.svg()))


def test_words_of_others_are_escaped() -> None:
    nasty = "<script>alert(1)</script>"
    steps = tuple(replace(one, result=nasty) for one in CRASH.steps)
    shown = FaultSchedule(replace(CRASH, steps=steps), nasty)
    assert "<script" not in shown.svg() + str(shown._repr_mimebundle_()["text/html"]) + shown.told.value


def test_without_a_failure_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="no failure; replay a seed instead"):
        FaultSchedule(None)
