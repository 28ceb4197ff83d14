"""`pytest --submissions` on a class: one row for each file, whatever it is, and reports that agree."""

import csv
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from qlab.classroom.exercises import ROOT
from qlab.classroom.grading import words
from qlab.classroom.grading.ex04 import EXERCISE
from qlab.classroom.texts import load
from tests.grading.answers import gallery, hand_in, notebook, parse


def grade_class(folder: Path, report: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the instructor's command from another folder."""
    command = [sys.executable, "-m", "qlab.classroom.grading", str(folder), f"--submissions-report={report}"]
    return subprocess.run(
        [*command, f"--junitxml={report}/junit.xml", *options],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def wrong(name: str) -> dict[str, object]:
    (path,) = [path for path in gallery("wrong") if path.stem == name]
    return notebook(parse(path)[0])


def book(report: Path) -> dict[str, dict[str, str]]:
    with (report / "gradebook.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_a_class_gets_all_four_reports(tmp_path: Path, pg_dsn: str) -> None:
    submissions, report = tmp_path / "lớp A", tmp_path / "report"
    hand_in(submissions, "An")
    hand_in(submissions, "=HYPERLINK(1)", b"{")
    hand_in(submissions, "Bình", wrong("release_without_token"))
    hand_in(submissions, "Chi", wrong("release_without_token"))
    (submissions / "conftest.py").write_text("raise SystemExit('the conftest of a student was run')")
    done = grade_class(submissions, report)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = book(report)
    assert {name: row["points"] for name, row in rows.items()} == {
        "An": "10", "Bình": "8", "Chi": "8", "'=HYPERLINK(1)": "0",
    }  # fmt: skip
    assert rows["Bình"]["ex04:token"] == "0"
    assert rows["Bình"]["mistakes"] == "release_without_token"
    results = json.loads((report / "results.json").read_text(encoding="utf-8"))
    first = results["misconceptions"][0]
    assert (first["mistake"], first["students"]) == ("release_without_token", ["Bình", "Chi"])
    assert results["conditions"]["seed"] == "qlab"
    page = (report / "report.html").read_text(encoding="utf-8")
    assert first["explanation"] in page
    assert "<script" not in page
    cases = ElementTree.parse(report / "junit.xml").findall(".//testcase")
    assert len(cases) == 24
    assert sum(case.find("failure") is not None for case in cases) == 2 + 6
    assert "the conftest of a student was run" not in done.stdout + done.stderr
    assert re.search(r"2 × release_without_token: ", done.stdout)
    assert "Traceback" not in done.stdout


def test_full_marks_for_all_is_exit_code_zero(tmp_path: Path, pg_dsn: str) -> None:
    hand_in(tmp_path / "class", "An")
    done = grade_class(tmp_path / "class", tmp_path / "report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [((), "there is no folder"), (("--exercise=ex98",), "'ex98' is not graded here")],
)
def test_wrong_options_are_one_sentence(
    tmp_path: Path, pg_dsn: str, options: tuple[str, ...], says: str
) -> None:
    folder = tmp_path / "class"
    if options:
        hand_in(folder, "An")
    done = grade_class(folder, tmp_path / "report", *options)
    assert done.returncode == 4
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_every_mistake_and_check_has_a_sentence() -> None:
    package = ROOT / "qlab" / "classroom" / "grading"
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.glob("*.py"))
    codes = set(re.findall(r'(?:Broken|AnswerFailed|BadFile)\(\s*"(\w+)"', source))
    mistakes, reasons = load("grading/ex04")["mistakes"], load("grading/common")["reasons"]
    for code in sorted(codes | {m for path in gallery("wrong") for m in parse(path)[1].values()}):
        assert words.explain("ex04", code), code
    unused = [code for code in {**mistakes, **reasons} if f'"{code}"' not in source]
    assert unused == []
    assert [words.title("ex04", check) for check in EXERCISE.checks]


BAD: dict[str, tuple[bytes | str, set[str]]] = {
    "memory": ("x = []\nwhile True: x.append(bytearray(50_000_000))", {"memory"}),
    "loop": ("while True: pass", {"timeout"}),
    "C loop": ("import signal\nsignal.signal(2, signal.SIG_IGN)\nsum(range(10**15))", {"timeout"}),
    "output": ("for _ in range(300): print('x' * 1_000_000)", {"output"}),
    "not utf-8": ("đúng".encode("utf-16"), {"not_utf8"}),
    "nbformat 3": (b'{"nbformat": 3, "nbformat_minor": 0, "worksheets": []}', {"wrong_format"}),
    "truncated": (json.dumps(notebook()).encode()[:3000], {"not_json"}),
    "zero": (b"", {"empty_file"}),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_h27_thirty_submissions_eight_of_them_bad(tmp_path: Path, pg_dsn: str) -> None:
    """Twice, in two orders, two at a time: the same thirty rows."""
    outcomes = []
    for turn in range(2):
        folder, report = tmp_path / f"class{turn}", tmp_path / f"report{turn}"
        order = list(BAD) if turn == 0 else list(reversed(BAD))
        for place, name in enumerate(order):
            content = BAD[name][0]
            made = content if isinstance(content, bytes) else notebook({"ans-handler": content})
            hand_in(folder / f"{place:02} {name}", "bad", made)
        for number in range(22):
            hand_in(folder, f"right {number}")
        done = grade_class(folder, report, "-n2", "--dist=loadfile")
        assert done.returncode == 1, done.stdout + done.stderr
        rows = {re.sub(r"^\d\d ", "", name): row for name, row in book(report).items()}
        outcomes.append({name: (row["points"], row["mistakes"]) for name, row in rows.items()})
    assert len(outcomes[0]) == 30
    assert outcomes[0] == outcomes[1]
    for name, (points, mistakes) in outcomes[0].items():
        if name in BAD:
            assert (points, {mistakes}) == ("0", BAD[name][1])
        else:
            assert (points, mistakes) == ("10", "")


def test_a_class_outside_the_course_is_graded_and_none_of_its_code_is_run(
    tmp_path: Path, pg_dsn: str
) -> None:
    """pytest would take a folder after a space for one of tests, and run its conftest.py."""
    submissions, report = tmp_path / "lớp A", tmp_path / "report"
    hand_in(submissions, "An")
    (submissions / "conftest.py").write_text("raise SystemExit('the conftest of a student was run')")
    command = [sys.executable, "-m", "pytest", "--submissions", str(submissions)]
    done = subprocess.run(
        [*command, f"--submissions-report={report}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert book(report)["An"]["points"] == "10"
