"""The learners' archive: complete but for the teacher's part, and the same bytes each time."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from qlab.classroom import handout
from qlab.classroom.exercises import ROOT
from qlab.classroom.handout import HandoutError, pack

PRIVATE = ("solutions", "gallery", "grading", "instructor")


def small_clone(folder: Path, umask: int = 0o022) -> Path:
    """A repository with the folders that matter, made under this umask."""
    before = os.umask(umask)
    try:
        for name in (
            "README.md",
            "solutions/ex04.ipynb",
            "exercises/ex04.ipynb",
            "qlab/classroom/grading/plugin.py",
            "qlab/classroom/text/vi/grading/ex04.toml",
            "qlab/queue.py",
            "tests/grading/gallery/wrong.py",
            "tests/unit/test_đơn.py",
            "docs/instructor.md",
            "docs/glossary.md",
        ):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name, encoding="utf-8")
        run = folder / "run"
        run.write_text("#!/bin/sh\n")
        run.chmod(run.stat().st_mode | 0o100)
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
        (folder / "untracked.txt").write_text("mine")
    finally:
        os.umask(before)
    return folder


def test_the_archive_leaves_out_what_is_the_teachers(tmp_path: Path) -> None:
    target = tmp_path / "out" / "course.zip"
    names = pack(small_clone(tmp_path / "clone"), target)
    expected = [
        "README.md",
        "docs/glossary.md",
        "exercises/ex04.ipynb",
        "qlab/queue.py",
        "run",
        "tests/unit/test_đơn.py",
    ]
    assert names == expected
    with zipfile.ZipFile(target) as archive:
        assert archive.namelist() == [f"qlab-course/{name}" for name in expected]
        modes = {i.filename.split("/")[-1]: oct(i.external_attr >> 16) for i in archive.infolist()}
    assert (modes["run"], modes["README.md"]) == ("0o100755", "0o100644")
    assert [p.name for p in target.parent.iterdir()] == ["course.zip"]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    archives = []
    for number, umask in ((1, 0o022), (2, 0o077)):
        target = tmp_path / f"{number}.zip"
        clone = small_clone(tmp_path / f"clone{number}", umask)
        os.utime(clone / "README.md", (1e9 * number, 1e9 * number))
        pack(clone, target)
        archives.append(target.read_bytes())
    assert archives[0] == archives[1]


def test_this_course_packs(tmp_path: Path) -> None:
    names = pack(ROOT, tmp_path / "course.zip")
    assert "exercises/ex04_idempotent_charge.ipynb" in names
    assert "qlab/classroom/exercises.py" in names
    assert not [name for name in names if any(part in name.split("/") for part in PRIVATE)]


def test_outside_a_clone_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HandoutError, match="git"):
        pack(tmp_path, tmp_path / "course.zip")
    assert handout.main(tmp_path) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not (tmp_path / "course.zip").exists()
