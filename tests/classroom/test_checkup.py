"""The doctor as a notebook shows it."""

import pytest

from qlab.classroom import checkup
from qlab.classroom.checkup import Bar, Checkup
from qlab.classroom.texts import load
from qlab.ops.doctor import Check, diagnose

WELL = Check("python", True, "Python 3.11.7")
ILL = Check("memory policy", False, "maxmemory-policy is <lru>", "CONFIG SET maxmemory-policy noeviction")


def test_all_well_is_one_sentence_and_a_table_without_a_column_of_fixes():
    shown = Checkup([WELL])
    assert shown.failed == []
    assert "1/1" in repr(shown)
    assert load("checkup")["column_fix"] not in shown._repr_html_()


def test_a_failed_check_is_named_with_its_fix_in_text_and_table():
    shown = Checkup([WELL, ILL])
    assert shown.failed == ["memory policy"]
    assert ILL.fix in repr(shown)
    assert ILL.fix in shown._repr_html_()
    assert "&lt;lru&gt;" in shown._repr_html_()
    assert load("checkup")["names"]["memory-policy"] in repr(shown)


def test_the_progress_folder_is_shown_by_its_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("QLAB_HOME", "/somewhere/private")
    shown = Checkup([Check("progress folder", True, "progress is kept in /somewhere/private")])
    assert "private" not in repr(shown)
    assert "$QLAB_HOME" in repr(shown)


def test_the_bar_counts_and_is_stored_as_one_fixed_line():
    bar = Bar()
    before = bar._repr_mimebundle_()["text/plain"]
    bar.note(WELL, 3, 10)
    assert (bar.bar.value, bar.bar.max) == (3, 10)
    assert "3/10" in bar.line.value
    assert bar._repr_mimebundle_()["text/plain"] == before == load("checkup")["began"]


def test_it_shows_what_the_doctor_finds_and_takes_its_bar_away(monkeypatch: pytest.MonkeyPatch):
    made: list[Bar] = []
    monkeypatch.setattr(checkup, "display", made.append)

    def diagnose(listener):
        listener(WELL, 1, 1)
        return [WELL]

    monkeypatch.setattr(checkup, "diagnose", diagnose)
    assert Checkup.run().checks == [WELL]
    assert made[0].bar.value == 1
    assert made[0].comm is None


def test_what_the_doctor_really_says_is_told_in_vietnamese():
    found = {check.name.replace(" ", "-"): check for check in diagnose()}
    for name in load("checkup")["details"]:
        detail = checkup._detail(found[name])
        assert detail != found[name].detail, f"the sentence of {name} is still the English one"
        assert "\\" not in detail
