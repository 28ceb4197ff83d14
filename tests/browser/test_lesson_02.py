"""Lesson 02 as a learner meets it: all of it runs in a browser, and its quiz is answered by clicks."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from qlab.classroom.quiz_items import read

from .lab_page import Notebook
from .test_lessons_in_a_browser import answer_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_lesson_02_runs_and_its_quiz_is_answered(open_notebook: Callable[[str], Notebook]):
    notebook = open_notebook("02_queue_or_log.ipynb")
    assert notebook.run_all(200) == "ran true"
    quiz = notebook.page.locator(".ql-quiz").last
    expect(quiz).to_contain_text("Kiểm tra D02")
    answer_all(quiz, read("D02")[1])
    expect(quiz.locator(".ql-summary")).to_contain_text("đã được ghi lên bảng")
