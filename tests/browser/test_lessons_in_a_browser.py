"""Lessons as a learner meets them: a real JupyterLab, a real Chromium, real clicks and keys."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from qlab.classroom.quiz_items import Question, read

from .lab_page import Notebook

Open = Callable[[str], Notebook]

pytestmark = pytest.mark.timeout(300)


def answer_all(card: Locator, questions: list[Question]) -> None:
    """Answer each question: a wrong choice first, then the right one, reading both replies."""
    for number, question in enumerate(questions):
        view = card.locator(".ql-question").nth(number)
        reply = view.locator(".ql-feedback:visible")
        if question.kind == "order":
            says = dict(question.steps)
            for step in question.answer:
                view.locator("button.ql-choice", has_text=says[step]).click()
        else:
            right = next(n for n, choice in enumerate(question.choices) if choice.right)
            view.locator("button.ql-choice").nth(right - 1).click()
            expect(reply).to_contain_text("Chưa đúng")
            view.locator("button.ql-choice").nth(right).click()
        expect(reply).to_contain_text("✓ Đúng")


def test_lesson_00_checks_the_machine_and_shows_how_a_lesson_works(open_notebook: Open):
    notebook = open_notebook("00_start_here.ipynb")
    assert notebook.run_all(120) == "ran true"
    page = notebook.page
    expect(page.locator("body")).to_contain_text("10/10 mục ổn")
    predict = page.locator(".ql-predict")
    predict.locator("button.ql-choice", has_text="Mất, vì lúc đẩy").click()
    predict.locator("input[type=text]").fill("vì không ai nghe")
    predict.locator("button", has_text="Chốt").click()
    expect(predict.locator(".ql-feedback")).to_contain_text("Bạn đoán Mất, vì lúc đẩy không có ai nghe")
    expect(predict.locator(".ql-feedback")).to_contain_text("vì không ai nghe")
    answer_all(page.locator(".ql-quiz"), read("00-how")[1])
    expect(page.locator(".ql-quiz .ql-summary")).to_contain_text("Xong 1/1 câu")


def test_lesson_03_runs_and_its_quiz_is_answered_by_clicks(open_notebook: Open):
    notebook = open_notebook("03_ack_race.ipynb")
    assert notebook.run_all(120) == "ran true"
    page = notebook.page
    crash_twice(page.locator(".ql-crash").last)
    place_a_fault(page.locator(".ql-fault-bench"))
    walk_by_keys(page.locator(".ql-schedule").last)
    quiz = page.locator(".ql-quiz").last
    expect(quiz).to_contain_text("Kiểm tra D03")
    answer_all(quiz, read("D03")[1])
    expect(quiz.locator(".ql-summary")).to_contain_text("đã được ghi lên bảng")


def crash_twice(bench: Locator) -> None:
    """The second press is the one that meets connections of the first."""
    for place, charges in ((1, 2), (0, 1)):
        bench.get_by_role("button", name=re.compile("A chết")).nth(place).click()
        bench.get_by_role("button", name=re.compile(f"^[○●] {charges}$")).click()
        bench.get_by_role("button", name="Chạy thật").click()
        expect(bench).to_contain_text(f"✓ Đúng như bạn đoán: {charges} lần.")
        expect(bench.get_by_role("button", name="Chạy thật")).to_be_focused()


def place_a_fault(bench: Locator) -> None:
    """Where the noted charge still fails: the worker dies before its note."""
    for label in ("làm trước, ghi dấu", "ghi dấu", "< chết trước", "mất", "Chạy thật"):
        bench.get_by_role("button", name=re.compile(rf"^([○●] )?{label}$")).click()
    expect(bench).to_contain_text("✗ Bạn đoán mất, thật ra là hai lần.")
    expect(bench).to_contain_text("Đã thử 1 trong")
    expect(bench.locator(".ql-schedule svg")).to_be_visible()


def walk_by_keys(schedule: Locator) -> None:
    """From the first step on with Tab and Enter, since the arrow keys are JupyterLab's."""
    schedule.get_by_role("button", name="Từ đầu").press("Enter")
    expect(schedule).to_contain_text("1. A nhận việc")
    forward = schedule.get_by_role("button", name="Bước sau")
    forward.press("Enter")
    forward.press("Enter")
    expect(schedule).to_contain_text("3. A làm «xem dấu» ở Redis")
    expect(forward).to_be_focused()


def test_the_widgets_need_no_mouse(open_notebook: Open):
    notebook = open_notebook("00_start_here.ipynb")
    assert notebook.run_all(120) == "ran true"
    keys = notebook.page.keyboard
    predict = notebook.page.locator(".ql-predict")
    if predict.locator("button", has_text="Đoán lại").count():
        predict.locator("button", has_text="Đoán lại").press("Enter")
    choices = predict.locator("button.ql-choice")
    expect(choices.first).to_be_enabled()
    choices.first.focus()
    keys.press("Enter")
    expect(choices.first).to_contain_text("●")
    keys.press("Tab")
    keys.press("Space")
    expect(choices.nth(1)).to_contain_text("●")
    expect(choices.first).to_contain_text("○")
    keys.press("Tab")
    keys.press("Tab")
    keys.type("ab, x: phím tắt của Lab không được chen vào")
    keys.press("Tab")
    keys.press("Enter")
    expect(predict.locator(".ql-feedback")).to_contain_text("phím tắt của Lab không được chen vào")
    expect(predict.locator("button", has_text="Đoán lại")).to_be_focused()
    quiz = notebook.page.locator(".ql-quiz button.ql-choice")
    quiz.first.focus()
    keys.press("Tab")
    keys.press("Enter")
    expect(notebook.page.locator(".ql-quiz .ql-feedback:visible")).to_contain_text("✓ Đúng")
