"""Lesson 04 as a learner meets it: its calculator without a mouse, its fault table, its quiz."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from qlab.classroom.quiz_items import read

from .lab_page import Notebook
from .test_lessons_in_a_browser import answer_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_lesson_04_runs_its_calculator_takes_keys_and_its_quiz_is_answered(
    open_notebook: Callable[[str], Notebook],
):
    notebook = open_notebook("04_idempotency.ipynb")
    assert notebook.run_all(200) == "ran true"
    page, keys = notebook.page, notebook.page.keyboard
    calculator = page.locator(".ql-lock-time")
    expect(calculator).to_contain_text("✓ Khoá 75 s còn dư 20 s")
    lock = calculator.locator("input").nth(3)
    lock.focus()
    lock.select_text()
    keys.type("17")
    keys.press("Tab")
    expect(calculator).to_contain_text("✗ Khoá hết ở giây 17, khi client đang nghỉ trước lần gọi 2")
    keys.press("Enter")  # the first case: the chapter's
    expect(calculator).to_contain_text("✓ Khoá 75 s còn dư 20 s")
    quiz = page.locator(".ql-quiz").last
    expect(quiz).to_contain_text("Kiểm tra D04")
    answer_all(quiz, read("D04")[1])
    expect(quiz.locator(".ql-summary")).to_contain_text("đã được ghi lên bảng")
