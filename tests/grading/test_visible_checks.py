"""The checks that a learner sees stop a wrong answer at the cell that is about its mistake."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

from qlab.classroom.exercises import ROOT
from tests.grading.answers import gallery, notebook, parse

pytestmark = pytest.mark.slow

STOPS = {
    "job_id_key": "chk-twice",
    "key_first": "chk-transient",
    "no_release": "chk-transient",
    "steals_live_lock": "chk-race",
    "release_without_token": "chk-token",
    "done_ignored": "chk-done",
    "done_without_token": "chk-done",
    "no_provider_key": "chk-crash",
}


def failing_checks(name: str | None) -> list[str]:
    """Run the exercise with this answer of the gallery; None is the reference."""
    (path,) = [path for path in gallery("wrong") if path.stem == name] or [None]
    made = nbformat.reads(json.dumps(notebook(parse(path)[0] if path else None)), as_version=4)
    resources = {"metadata": {"path": str(ROOT)}}
    NotebookClient(made, timeout=60, allow_errors=True, record_timing=False, resources=resources).execute()
    return [
        cell.id
        for cell in made.cells
        if cell.cell_type == "code" and any(output.output_type == "error" for output in cell.outputs)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STOPS)
def test_wrong_answer_stops_at_its_check(name: str) -> None:
    assert STOPS[name] in failing_checks(name)


@pytest.mark.filterwarnings("ignore")
def test_reference_passes_every_check() -> None:
    assert failing_checks(None) == []
