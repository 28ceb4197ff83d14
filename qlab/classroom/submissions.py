"""The pytest option `--submissions DIR`. The work is in `qlab.classroom.grading`, not part of handouts."""

from importlib.util import find_spec

import pytest

REPORTS = "build/grading"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of them only for grading."""
    group = parser.getgroup("grading", "grade submitted exercises")
    group.addoption(
        "--submissions", metavar="DIR", help="grade the notebooks below DIR instead of running tests"
    )
    group.addoption("--submissions-report", metavar="DIR", default=REPORTS, help=f"for reports ({REPORTS})")
    group.addoption("--submissions-seed", metavar="TEXT", default="qlab", help="seed of the hidden inputs")
    group.addoption(
        "--exercise", metavar="EX", help="for files whose name does not say which exercise they are"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Grading is on only when a folder is named."""
    if not config.getoption("--submissions"):
        return
    if find_spec("qlab.classroom.grading") is None:
        raise pytest.UsageError("--submissions: this copy of the course has no grader; use the full clone")
    from qlab.classroom.grading.plugin import Grading

    config.pluginmanager.register(Grading(config), "qlab-grading")
