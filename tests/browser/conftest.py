"""The browser tests need a Chromium of the system: without one they are left out aloud, in CI they fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Playwright, expect, sync_playwright

from .lab_page import Notebook, browser, jupyterlab, page

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parents[1] / "notebooks"
LEFT_OUT = (
    "browser tests left out: there is no Chromium here. Install the system's package "
    "(apt-get install chromium) or set QLAB_CHROMIUM to a Chromium or Chrome."
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if browser() is not None or os.environ.get("CI"):
        return
    mine = [item for item in items if HERE in item.path.parents]
    if mine:
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if browser() is None and not os.environ.get("CI"):
        terminalreporter.write_line(LEFT_OUT, yellow=True)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab on a copy of the lessons, as a learner who starts today finds them."""
    home = tmp_path_factory.mktemp("home")
    lessons = home / "course" / "notebooks"
    shutil.copytree(LESSONS, lessons, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with jupyterlab(lessons, home) as address:
        yield address


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """It keeps an event loop running in this thread, so it must be gone before other tests use asyncio."""
    expect.set_options(timeout=30_000)
    with sync_playwright() as started:
        yield started


@pytest.fixture
def open_notebook(lab: str, playwright: Playwright, tmp_path: Path) -> Iterator[Callable[[str], Notebook]]:
    """Open a lesson in a fresh browser; afterwards nothing outside was asked for and nothing went wrong."""
    with ExitStack() as stack:
        opened: list[Notebook] = []

        def open_(name: str) -> Notebook:
            notebook = Notebook(stack.enter_context(page(playwright, tmp_path / "profile")), lab)
            opened.append(notebook)
            notebook.open(name)
            return notebook

        yield open_
        for notebook in opened:
            notebook.shut_down()
    for notebook in opened:
        assert notebook.requests == [], "the lab asked for something outside this machine"
        assert notebook.errors == [], "the browser's console reports errors"
