"""The fault table: each cell once, shapes and words beside colours, and its text equivalent."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from qlab.classroom.fault_table import FaultTable
from qlab.classroom.texts import text
from qlab.testing.explorer.report import Report
from tests.classroom.reports import CHARGE_FIRST, CLEAN, CRASH, GOOD, KEY_FIRST, LONG, report, row

SVG = "{http://www.w3.org/2000/svg}"
BESIDE_THE_SIDE_BAR = 848
"""Pixels of a cell's output in JupyterLab on a 1280-pixel screen with the side bar open."""
ALL = {
    "khoá trước": KEY_FIRST,
    "trừ tiền trước": CHARGE_FIRST,
    "hai pha": GOOD,
    "kiên nhẫn": CLEAN,
    "outbox": LONG,
}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def frames(svg: str, kind: str) -> int:
    """How many cells have the frame of this kind; the legend's dotted one is not a cell."""
    cells = [e for e in ET.fromstring(svg).iter(f"{SVG}rect") if e.get("class") == f"ft-{kind}"]
    return sum(float(cell.get("width", 0)) > 30 for cell in cells)


@pytest.mark.parametrize("name", ALL)
def test_each_cell_of_the_report_is_drawn_once(name: str) -> None:
    svg = FaultTable({name: ALL[name]}).svg()
    cells = [outcome for one in ALL[name].rows for outcome in one.outcomes.values()]
    for outcome in ("once", "lost", "twice", "stuck", "ghost", "half"):
        assert frames(svg, outcome) == cells.count(outcome)
    assert frames(svg, "none") == cells.count(None)


def test_every_cell_has_its_word() -> None:
    words = texts(FaultTable({"khoá trước": KEY_FIRST}).svg())
    assert words.count("mất") == 5 + 1  # five cells and the legend
    assert words.count("1 lần") == 4


def test_outcomes_differ_in_shape_and_not_only_in_colour() -> None:
    shapes = set()
    for letter in "oltsgh":
        svg = FaultTable({"x": report([row(1, "COMMIT", letter * 5)])}).svg()
        root = ET.fromstring(svg)
        drawn = [
            (element.tag, sorted((k, v) for k, v in element.attrib.items() if k in ("r", "stroke-dasharray")))
            for element in root.iter()
            if element.get("class") in ("ft-shape", "ft-open")
        ]
        looks = [
            element.get("class") for element in root.iter() if (element.get("class") or "").startswith("ft-o")
        ]
        shapes.add((str(drawn), str(looks)))
    assert len(shapes) == 6


def test_effects_that_are_the_same_as_above_are_named_once() -> None:
    same, different = {"a": CLEAN, "b": GOOD}, {"a": CLEAN, "b": KEY_FIRST}
    assert texts(FaultTable(same).svg()).count("INSERT idempotency_key") == 1
    assert "INSERT processed_job" in texts(FaultTable(different).svg())


def test_with_two_actors_each_effect_says_whose_it_is() -> None:
    rows = [row(1, "SELECT visit", "ooo-o"), replace(row(2, "SELECT visit", "ooo-o"), actor="B")]
    words = texts(FaultTable({"hai worker": report(rows)}).svg())
    assert {"A · SELECT visit", "B · SELECT visit"} <= set(words)


def test_many_effects_go_on_below_and_stay_in_the_picture() -> None:
    root = ET.fromstring(FaultTable({"outbox": LONG}).svg())
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    assert width <= BESIDE_THE_SIDE_BAR
    for element in root.iter(f"{SVG}rect"):
        if (element.get("class") or "") in ("ft-ghost", "ft-half", "ft-twice", "ft-stuck", "ft-lost"):
            assert float(element.get("x") or 0) + float(element.get("width") or 0) <= width
            assert float(element.get("y") or 0) + float(element.get("height") or 0) <= height


def test_three_effects_with_every_fault_fit_beside_the_open_side_bar_and_no_word_is_cut() -> None:
    for letters in ("oltsg", "hhhhh"):
        one = report([row(number, "COMMIT", letters) for number in range(3)])
        svg = FaultTable({"cách A, thử lại đợi qua khoá": one}).svg()
        assert float(ET.fromstring(svg).get("width") or 0) <= BESIDE_THE_SIDE_BAR
        assert not [words for words in texts(svg) if words.endswith("…")]


def test_the_legend_explains_what_is_drawn_and_nothing_else() -> None:
    key_first, good = texts(FaultTable({"a": KEY_FIRST}).svg()), texts(FaultTable({"a": GOOD}).svg())
    assert text("fault.outcomes.stuck") in good
    assert text("fault.outcomes.stuck") not in key_first
    assert text("fault.meanings.reply_lost") in key_first


def test_the_picture_says_what_was_tried_and_never_that_it_is_proved() -> None:
    assert "nhiều nhất 1 lần hỏng và 0 lần chen ngang" in FaultTable({"a": CLEAN}).bounds
    assert "không phải là chứng minh" in FaultTable({"a": CLEAN}).bounds
    stopped = replace(CLEAN, complete=False)
    assert "chưa thử hết" in FaultTable({"a": CLEAN, "b": stopped}).bounds


def test_each_protocol_is_told_in_one_sentence() -> None:
    table = FaultTable(
        {"khoá trước": KEY_FIRST, "kiên nhẫn": CLEAN}, names={"INSERT processed_job": "ghi khoá"}
    )
    assert table.sentences == [
        "khoá trước: mất: ghi khoá (chết sau, mất hồi âm), trừ tiền (chết trước, chết sau, báo lỗi). "
        "Các ô còn lại: đúng một lần.",
        "kiên nhẫn: hỏng ở đâu cũng vẫn đúng một lần.",
    ]


def test_the_same_cells_stand_in_a_table_of_words() -> None:
    markdown = FaultTable({"a|b": KEY_FIRST}).markdown()
    assert "| a\\|b | trừ tiền | mất | mất | đúng một lần | mất | đúng một lần |" in markdown
    assert "| a\\|b | INSERT processed_job | đúng một lần | mất | đúng một lần | – | mất |" in markdown


def test_it_has_its_text_in_it_and_is_thought_of_in_the_dark() -> None:
    table = FaultTable(ALL, "Thử hết")
    root = ET.fromstring(table.svg())
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert (title.text, desc.text) == ("Thử hết", " ".join(table.sentences))
    assert "prefers-color-scheme: dark" in table.svg()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|href|<image|@import", table.svg())


def test_the_picture_does_not_depend_on_times() -> None:
    slower = replace(KEY_FIRST, seconds=99.0)
    assert FaultTable({"a": slower}).svg() == FaultTable({"a": KEY_FIRST}).svg()


def test_words_of_others_are_escaped() -> None:
    nasty = '<script>alert("1")</script> & </text>'
    svg = FaultTable({nasty: report([row(1, nasty, "ooo-o")], CRASH)}, nasty).svg()
    assert "<script" not in svg
    ET.fromstring(svg)


def test_an_outcome_of_an_invariant_of_your_own_stands_for_itself() -> None:
    own: Report = report([row(1, "COMMIT", "ooo-o")])
    rows = (replace(own.rows[0], outcomes={**own.rows[0].outcomes, "<": "late"}),)
    table = FaultTable({"a": replace(own, rows=rows)})
    assert "late" in texts(table.svg())
    assert "late: COMMIT (chết trước)" in table.sentences[0]


def test_without_a_report_it_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="at least one report"):
        FaultTable({})


def test_it_is_shown_as_a_picture_and_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    FaultTable({"khoá trước": KEY_FIRST})._ipython_display_()
    shown = capsys.readouterr().out
    assert "[Mọi chỗ có thể hỏng, thử hết] Chạy ô này" in shown
    assert "| khoá trước | trừ tiền |" in shown
