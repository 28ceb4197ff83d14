"""docs/coverage.md is true: each id is shown by a cell that exists, was run and asserts, or by a test."""

from pathlib import Path

import pytest

from qlab.classroom.coverage import Coverage

ROOT = Path(__file__).parents[2]
LESSON = """{{"cells": [
 {{"cell_type": "code", "id": "run", "metadata": {{}}, "outputs": [],
  "execution_count": {count}, "source": "{source}"}},
 {{"cell_type": "markdown", "id": "why", "metadata": {{}}, "source": "x"}}],
 "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}"""


@pytest.fixture(scope="module")
def coverage():
    return Coverage.read(ROOT)


def test_every_statement_is_shown_where_the_table_says(coverage):
    assert coverage.problems == []


def test_the_document_is_made_from_its_files(coverage):
    assert (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8") == coverage.table()


def test_the_legend_counts_all_statements(coverage):
    sources = [id for id in coverage.ids if id.startswith("S")]
    assert (len(sources), len(coverage.ids)) == (267, 382)


def project(folder, entry, *, count=1, source="assert 1 == 1", later=""):
    """A course of one lesson and one id."""
    (folder / "docs" / "coverage").mkdir(parents=True)
    (folder / "notebooks").mkdir()
    (folder / "docs/coverage/legend.toml").write_text('[Q]\ncount = 1\ntitle = "t"\n')
    (folder / "docs/coverage/later.toml").write_text(later)
    (folder / "docs/coverage/03.toml").write_text(entry)
    (folder / "notebooks/03_x.ipynb").write_text(LESSON.format(count=count, source=source))
    return Coverage.read(folder).problems


@pytest.mark.parametrize(
    ("entry", "lesson", "problem"),
    [
        ('[Q1]\nwhat = "x"\ncells = ["run"]', {}, None),
        ('[Q1]\nwhat = "x"\nprose = ["why"]', {}, None),
        ("", {}, "Q1: nothing says where it is shown"),
        ('[Q1]\nwhat = "x"', {}, "03 Q1: names no cell, passage or test"),
        ('[Q1]\nwhat = "x"\ncells = ["gone"]', {}, "03 Q1: the lesson has no code cell gone"),
        ('[Q1]\nwhat = "x"\ncells = ["why"]', {}, "03 Q1: the lesson has no code cell why"),
        ('[Q1]\nwhat = "x"\ncells = ["run"]', {"count": "null"}, "03 Q1: the cell run was not run"),
        (
            '[Q1]\nwhat = "x"\ncells = ["run"]',
            {"source": "print(1)"},
            "03 Q1: none of its cells asserts anything",
        ),
        (
            '[Q1]\nwhat = "x"\ntests = ["tests/x.py::test_y"]',
            {},
            "03 Q1: there is no test tests/x.py::test_y",
        ),
        ('[Q2]\nwhat = "x"\nprose = ["why"]', {}, "03 Q2: no id of the legend"),
        (
            '[Q1]\nwhat = "x"\ncell = "run"',
            {},
            "03.toml Q1: needs `what`, may have ['cells', 'prose', 'tests']",
        ),
        (
            '[Q1]\nwhat = "x"\nprose = ["why"]',
            {"later": '["03"]\nids = ["Q1"]'},
            "later 03: this notebook exists, so its ids belong in 03.toml",
        ),
    ],
)
def test_what_is_not_true_is_named(tmp_path, entry, lesson, problem):
    problems = project(tmp_path, entry, **lesson)
    assert (problem in problems) if problem else problems == []
