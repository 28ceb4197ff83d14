"""Running and storing notebooks: what is kept, what is dropped, and what happens when a cell fails."""

import os
import textwrap
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from qlab.classroom import notebooks
from qlab.classroom.notebooks import KERNEL, WIDGET_VIEW, NotebookFailedError, main, normalised, run


def write(path: Path, *cells: str) -> Path:
    notebook = new_notebook(cells=[new_code_cell(textwrap.dedent(source).strip()) for source in cells])
    nbformat.write(notebook, path)
    return path


def read(path: Path):
    return nbformat.read(path, as_version=4)


def test_a_run_stores_outputs_in_the_notebooks_own_folder_with_no_progress(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("QLAB_HOME", "unchanged")
    (tmp_path / "beside.txt").write_text("beside")
    path = write(
        tmp_path / "a.ipynb",
        "from pathlib import Path; print(Path('beside.txt').read_text())",
        "import os; from qlab.classroom.progress import current\ncurrent().items",
        "assert os.environ['QLAB_HOME'] != 'unchanged'",
    )
    ids = [cell.id for cell in read(path).cells]
    run(path)
    stored = read(path)
    assert stored.cells[0].outputs[0].text == "beside\n"
    assert stored.cells[1].outputs[0].data["text/plain"] == "{}"
    assert [cell.execution_count for cell in stored.cells] == [1, 2, 3]
    assert [cell.id for cell in stored.cells] == ids
    assert os.environ["QLAB_HOME"] == "unchanged"
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_running_twice_stores_the_same_bytes(tmp_path: Path):
    path = write(tmp_path / "a.ipynb", "from qlab.classroom.quiz import Quiz\nQuiz('D03')")
    run(path)
    first = path.read_bytes()
    run(path)
    assert path.read_bytes() == first
    assert WIDGET_VIEW.encode() not in first
    assert b"text/html" in first


def test_a_failing_cell_is_named_and_the_file_is_left_as_it_was(tmp_path: Path, capsys):
    path = write(tmp_path / "a.ipynb", "1 + 1", "raise ValueError('no such job')")
    before = path.read_bytes()
    assert main([str(path)]) == 1
    said = capsys.readouterr().err
    assert f"{path}: cell 2 (" in said
    assert "ValueError: no such job" in said
    assert "Traceback" not in said
    assert path.read_bytes() == before


def test_a_cell_that_takes_too_long_is_stopped(tmp_path: Path):
    path = write(tmp_path / "a.ipynb", "import threading; threading.Event().wait()")
    with pytest.raises(NotebookFailedError, match=r"cell 1 .* timed out"):
        run(path, timeout=1)


def test_a_kernel_that_dies_is_said_so(tmp_path: Path):
    path = write(tmp_path / "a.ipynb", "import os; os._exit(3)")
    with pytest.raises(NotebookFailedError, match="died"):
        run(path)


def test_traces_of_machine_editor_and_run_are_dropped_and_the_rest_is_kept():
    view = {WIDGET_VIEW: {"model_id": "1"}}
    code = new_code_cell(
        "x",
        metadata={
            "tags": ["check"],
            "qlab": {"check": "x"},
            "execution": {"iopub.execute_input": "2026-01-01"},
            "collapsed": True,
        },
        outputs=[
            new_output("display_data", {**view, "text/plain": "Quiz"}),
            new_output("display_data", view),
            new_output("stream", name="stdout", text="x"),
        ],
    )
    notebook = new_notebook(
        cells=[code, new_markdown_cell("y")],
        metadata={
            "kernelspec": {"name": "my-venv", "display_name": "mine"},
            "widgets": {"state": {}},
            "qlab": {"exercise": "ex04"},
        },
    )
    notebook.cells[1]["id"] = code.id
    clean = normalised(notebook)
    assert clean.metadata == {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "qlab": {"exercise": "ex04"},
    }
    assert clean.cells[0].metadata == {"tags": ["check"], "qlab": {"check": "x"}}
    assert [list(o.get("data", [o.output_type])) for o in clean.cells[0].outputs] == [
        ["text/plain"],
        ["stream"],
    ]
    assert clean.cells[0].id == code.id
    assert clean.cells[1].id == "cell-1"


@pytest.mark.parametrize("arguments", [["nowhere.ipynb"], []])
def test_no_notebook_is_one_sentence(tmp_path: Path, monkeypatch, capsys, arguments: list[str]):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("no such notebook: ")


def test_without_arguments_all_lessons_and_solutions_are_run(tmp_path: Path, monkeypatch):
    for folder in ("notebooks", "solutions", "exercises"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "a.ipynb", "1")
    monkeypatch.chdir(tmp_path)
    assert [str(path) for path in notebooks.default_paths()] == ["notebooks/a.ipynb", "solutions/a.ipynb"]
