"""The check of stored notebooks: a good lesson passes, and each way of being wrong is found and named."""

import copy
import socket
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from qlab.classroom.checks import LONGEST_CELL, check, main
from qlab.classroom.notebooks import KERNEL, WIDGET_VIEW

SVG = "<svg><title>A chết</title><desc>A nhận việc rồi chết</desc></svg>"


def shows(data: dict[str, str]):
    return new_output("execute_result", data, execution_count=1)


def good() -> nbformat.NotebookNode:
    """A lesson with every beat, as it would be stored."""
    cells = [
        new_markdown_cell("# 03 · Bài\n\nSau bài này bạn làm được. **20 phút.**", id="promise"),
        new_code_cell("Predict('00-no-worker')", id="predict"),
        new_code_cell("runs = await lab.run()\nassert runs == 2\nruns", id="run"),
        new_code_cell("timeline", id="picture", outputs=[shows({"image/svg+xml": SVG, "text/plain": "x"})]),
        new_code_cell("Quiz('D03')", id="quiz"),
        new_markdown_cell("**Nếu bạn chỉ nhớ một câu**: khoá là một lời hứa.", id="end"),
    ]
    for number, cell in enumerate((c for c in cells if c.cell_type == "code"), 1):
        cell.execution_count = number
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return new_notebook(cells=cells, metadata=metadata)


def problems(
    notebook: nbformat.NotebookNode, tmp_path: Path, folder: str = "notebooks", name: str = "03_x"
) -> str:
    path = tmp_path / folder / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return "\n".join(check(path))


def test_a_good_lesson_has_no_problem(tmp_path: Path):
    assert problems(good(), tmp_path) == ""


def _prints(words: str) -> Callable[[nbformat.NotebookNode], None]:
    def change(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[2].outputs = [new_output("stream", name="stdout", text=words)]

    return change


def _source(cell: int, source: str) -> Callable[[nbformat.NotebookNode], None]:
    def change(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[cell].source = source

    return change


def _set(cell: int, **fields: object) -> Callable[[nbformat.NotebookNode], None]:
    def change(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[cell].update(nbformat.from_dict(fields))

    return change


def _metadata(notebook: nbformat.NotebookNode) -> None:
    notebook.metadata["widgets"] = {}


def _swap_run_and_quiz(notebook: nbformat.NotebookNode) -> None:
    run, quiz = notebook.cells[2], notebook.cells[4]
    run.source, quiz.source = quiz.source, run.source


WRONG = {
    "not run": (_set(2, execution_count=None), "cell 3 (run) is stored without having been run"),
    "out of order": (_set(2, execution_count=7), "not run once each from top to bottom"),
    "error": (
        _set(2, outputs=[new_output("error", ename="ValueError", evalue="x", traceback=[])]),
        "cell 3 (run) is stored with an error",
    ),
    "temporary path": (_prints("wrote /tmp/tmpab12/worker.py"), "shows a path of this machine (/tmp/tmpab12"),
    "home": (_prints("in /home/lan/course"), "shows a path of this machine (/home/lan"),
    "windows": (_prints(r"in C:\\Users\\lan"), "shows a path of this machine"),
    "packages": (_prints("lib/python3.11/site-packages/redis"), "shows a path of this machine"),
    "host": (_prints("worker on " + "host-of-somebody"), "shows the name of this machine"),
    "editor's metadata": (
        _set(2, metadata={"collapsed": True}),
        "metadata of an editor or a run (collapsed)",
    ),
    "notebook's metadata": (_metadata, "the notebook's metadata hold more than its kernel"),
    "widget": (_set(2, outputs=[shows({WIDGET_VIEW: {}, "text/plain": "x"})]), "a link to a live widget"),
    "unknown prediction": (_source(1, "guess = Predict('03-nope')"), "Predict('03-nope') has no text"),
    "unknown quiz": (_source(4, "Quiz('D77')"), "Quiz('D77') has no text"),
    "unknown proof": (_source(3, "prove('D77', {'runs': 2})"), "prove('D77') has no text"),
    "dead link": (
        _source(5, "Nếu bạn chỉ nhớ một câu: [04](04_x.ipynb)"),
        "links to 04_x.ipynb, which is not",
    ),
    "dead link in an output": (
        _set(2, outputs=[shows({"text/html": '<a href="05_x.ipynb">', "text/plain": "x"})]),
        "links to 05_x.ipynb",
    ),
    "old spelling": (_source(5, "Nếu bạn chỉ nhớ một câu: khóa"), "writes 'khóa'"),
    "long cell": (_source(2, "\n".join(["assert True"] * (LONGEST_CELL + 1))), f"more than {LONGEST_CELL}"),
    "class": (_source(2, "class Worker: pass\nassert Worker"), "cell 3 (run) defines a class"),
    "class in a worker file": (_source(2, "%%worker a.py\nclass W: pass\nassert W"), "defines a class"),
    "no promise": (_source(0, "# 03 · Bài"), "the first cell must promise something"),
    "no prediction": (_source(1, "pass"), "a Predict before a run"),
    "no assertion": (_source(2, "runs = 2"), "a Predict before a run"),
    "quiz before the run": (_swap_run_and_quiz, "a Quiz after the run"),
    "no picture": (_set(3, outputs=[]), "there must be a picture"),
    "picture without words": (
        _set(3, outputs=[shows({"image/svg+xml": "<svg></svg>", "text/plain": "<SVG object>"})]),
        "there must be a picture",
    ),
    "no ending": (_source(5, "Hết."), "must end with one sentence"),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_way_of_being_wrong_is_found_and_named(case: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "host-of-somebody")
    change, says = WRONG[case]
    notebook = copy.deepcopy(good())
    change(notebook)
    assert says in problems(notebook, tmp_path)


def test_a_picture_with_its_text_beside_it_will_do(tmp_path: Path):
    notebook = good()
    words = "A nhận việc 7, trừ tiền, rồi bị giết trước khi kịp gửi ACK."
    notebook.cells[3].outputs = [shows({"text/html": "<svg></svg>", "text/plain": words})]
    assert problems(notebook, tmp_path) == ""


def test_a_cell_that_means_to_raise_says_so_by_its_tag(tmp_path: Path):
    notebook = good()
    notebook.cells[3].metadata["tags"] = ["raises-exception"]
    notebook.cells[3].outputs.append(new_output("error", ename="LockLost", evalue="x", traceback=[]))
    assert problems(notebook, tmp_path) == ""


def test_the_start_and_the_end_of_the_course_and_solutions_need_no_beats(tmp_path: Path):
    notebook = good()
    notebook.cells = notebook.cells[2:3]
    notebook.cells[0].execution_count = 1
    assert problems(notebook, tmp_path, name="00_start_here") == ""
    assert problems(notebook, tmp_path, folder="solutions") == ""
    assert "must" in problems(notebook, tmp_path)


def test_an_exercise_may_be_executed_in_any_order(tmp_path: Path):
    notebook = good()
    notebook.cells[1].execution_count = 9
    assert problems(notebook, tmp_path, folder="exercises") == ""


def test_a_file_that_is_no_notebook_is_one_sentence(tmp_path: Path):
    path = tmp_path / "03_x.ipynb"
    path.write_text("{")
    assert "not a readable notebook" in check(path)[0]


def test_main_prints_each_problem_and_fails(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 1
    assert "no notebooks here" in capsys.readouterr().err
    assert problems(good(), tmp_path) == ""
    assert main([]) == 0
    notebook = good()
    notebook.cells[2].execution_count = None
    problems(notebook, tmp_path)
    assert main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("notebooks/03_x.ipynb: cell 3 (run)")
