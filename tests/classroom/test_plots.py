"""Plots: what their text says is what was drawn, and the picture carries its words."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from qlab.classroom import plots

SVG = "{http://www.w3.org/2000/svg}"


def words_inside(plot: plots.Plot) -> tuple[str, str]:
    root = ET.fromstring(plot.svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    title, told = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert f"{title.get('id')} {told.get('id')}" == root.get("aria-labelledby")
    return title.text, told.text


def herd() -> plots.Plot:
    samples = {"không jitter": [1.0] * 90 + [3.0] * 10, "có jitter": [0.5, 1.5, 2.5]}
    return plots.histograms("Bầy đàn", samples, width=0.5, x="giây", y="số lần")


def test_a_histogram_counts_and_names_its_highest_bin():
    plot = herd()
    assert plot.summary["không jitter"] == {
        "values": 100, "least": 1.0, "most": 3.0, "peak": 90, "peak_from": 1.0, "peak_to": 1.5,
    }  # fmt: skip
    assert plot.summary["có jitter"]["peak"] == 1
    assert "không jitter: 100 giá trị, từ 1 tới 3 (giây); cột cao nhất có 90" in plot.text()


def test_the_words_are_inside_the_picture_and_below_it():
    plot = herd()
    title, told = words_inside(plot)
    assert title == "Bầy đàn"
    assert all(sentence in told and sentence in plot.markdown() for sentence in plot.sentences)


def test_the_same_values_give_the_same_picture():
    assert herd().svg == herd().svg


def test_curves_tell_start_top_and_end_and_the_limit():
    panel = plots.Panel("kết nối", {"inline": ([0, 0.5, 1], [0, 9, 2])}, limit=10, limit_name="trần")
    plot = plots.curves("Cơn dồn", [panel], x="giây")
    course = plot.summary["kết nối"]["inline"]
    assert course == {"first": 0, "highest": 9, "at": 0.5, "last": 2, "end": 1}
    assert plot.sentences == (
        "kết nối, inline: lúc đầu 0, cao nhất 9 (ở giây 0,5), cuối cùng 2 (ở giây 1).",
        "kết nối: đường chấm ngang «trần» nằm ở mức 10.",
    )
    words_inside(plot)


def test_bars_say_each_part_also_one_that_is_too_small_to_see():
    plot = plots.bars("Còn gì?", {"noeviction": {"còn": 1200, "mất": 0}}, x="số job")
    assert plot.sentences == ("noeviction: còn 1.200, mất 0 (số job).",)
    words_inside(plot)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.histograms("x", {"a": []}, width=1, x="", y=""),
        lambda: plots.histograms("x", {}, width=1, x="", y=""),
        lambda: plots.histograms("x", {"a": [1.0]}, width=0, x="", y=""),
        lambda: plots.curves("x", [plots.Panel("y", {"a": ([], [])})], x=""),
        lambda: plots.curves("x", [plots.Panel("y", {"a": ([1, 2], [1])})], x=""),
        lambda: plots.bars("x", {}, x=""),
        lambda: plots.bars("x", {"a": {"p": 1}, "b": {"q": 1}}, x=""),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(draw):
    with pytest.raises(ValueError, match=r"needs? "):
        draw()


def test_series_differ_in_more_than_colour():
    assert len(set(plots.COLOURS)) == len(set(map(str, plots.DASHES))) == len(set(plots.HATCHES)) == 5


def test_a_new_home_hears_nothing_of_the_cache_of_fonts(tmp_path):
    code = (
        "import qlab.classroom, logging; log = logging.getLogger('matplotlib.font_manager');"
        "log.warning('building'); import qlab.classroom.plots"
    )
    home = {**os.environ, "HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=home, capture_output=True, text=True, check=True)
    assert done.stderr == ""
