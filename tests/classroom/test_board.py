"""The board of the 23 items and the map of lessons."""

import re
from pathlib import Path

import pytest

from qlab.classroom import board
from qlab.classroom.board import Board, LessonMap
from qlab.classroom.progress import Progress
from qlab.classroom.texts import load


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "progress")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notebooks"
    made.mkdir()
    for name in ("03_ack_race.ipynb", "07_stalled_jobs.ipynb"):
        (made / name).write_text("{}")
    return made


def test_the_board_has_all_23_items_each_with_a_lesson_of_the_plan():
    items = load("board")["items"]
    assert list(items) == [f"D{number:02}" for number in range(1, 24)]
    assert {item["lesson"] for item in items.values()} <= set(load("board")["lessons"])
    assert list(load("board")["lessons"]) == [f"{number:02}" for number in range(18)]
    assert len({item["says"] for item in items.values()}) == 23


def test_each_state_of_an_item(progress: Progress, folder: Path):
    progress.prove("D03", {"charges": 2})
    progress.pass_quiz("D03", {"q": 1})
    progress.pass_quiz("D10", {"q": 1})
    progress.prove("D01", {"p95": 1})
    shown = {item.id: item.state for item in Board(progress, folder).items}
    assert (shown["D03"], shown["D10"], shown["D01"], shown["D02"]) == ("both", "quiz", "run", "absent")
    (folder / "02_queue_or_log.ipynb").write_text("{}")
    shown = {item.id: item.state for item in Board(progress, folder).items}
    assert shown["D02"] == "open"
    counts = Board(progress, folder).counts
    assert set(counts) == set(board.STATES)
    assert sum(counts.values()) == 23
    assert counts["both"] == 1


def test_html_and_text_say_the_same_and_signs_never_stand_alone(progress: Progress, folder: Path):
    progress.prove("D10", {"runs": 2})
    shown = Board(progress, folder)
    html, plain = shown._repr_html_(), repr(shown)
    for item in shown.items:
        assert item.id in html
        assert item.id in plain
    assert html.count("<tr>") == 24
    assert load("board")["run"] in html
    assert load("board")["run"] in plain
    assert "0 / 23" in plain


def test_only_lessons_that_exist_are_links(progress: Progress, folder: Path):
    linked = set(re.findall(r'href="([^"]+)"', Board(progress, folder)._repr_html_()))
    assert linked == {"03_ack_race.ipynb", "07_stalled_jobs.ipynb"}
    mapped = set(re.findall(r"\]\(([^)]+)\)", LessonMap(folder)._repr_markdown_()))
    assert mapped == linked
    assert repr(LessonMap(folder)).count(load("board")["map_absent"]) == 16


def test_progress_that_cannot_be_saved_is_said_on_the_board(tmp_path: Path, folder: Path):
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "progress")
    progress.prove("D03", {"charges": 2})
    shown = Board(progress, folder)
    assert progress.notices[0] in repr(shown)
    assert "QLAB_HOME" in shown._repr_html_()


def test_python_m_qlab_board_prints_it(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("QLAB_HOME", str(tmp_path))
    assert board.main() == 0
    assert capsys.readouterr().out.count("\n") == 24
