"""Copies of the course in folders of any name, and an ordinary user to be."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VIETNAMESE = "khoá học nền số 1"


@pytest.fixture
def small_copy(tmp_path) -> Path:
    """What the set-up itself needs, with requirements that install nothing."""
    folder = tmp_path / VIETNAMESE
    (folder / "tools").mkdir(parents=True)
    for name in (
        "Makefile",
        "tools/setup.sh",
        "tools/setup_env.py",
        "tools/join_project.py",
        "pyproject.toml",
    ):
        shutil.copy(ROOT / name, folder / name)
    (folder / "requirements.txt").write_text("# nothing\n")
    return folder


@pytest.fixture
def programs(tmp_path) -> Path:
    """A folder that is all of PATH: the shell's tools, the Python of this run, no uv."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "make", "rm", "find", "true", "test", "cat", "mkdir", "touch"):
        (folder / name).symlink_to(shutil.which(name))
    write_program(folder / "python3", f'exec "{sys.executable}" "$@"')
    return folder


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def copy_of_the_course(folder: Path) -> Path:
    """The tracked and new files of this folder, without its environment."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def course(tmp_path) -> Path:
    """The course in a folder that only we may enter and whose name has spaces and Vietnamese letters."""
    outer = tmp_path / "của tôi"
    outer.mkdir(mode=0o700)
    return copy_of_the_course(outer / VIETNAMESE)


@pytest.fixture
def ordinary() -> "pwd.struct_passwd":
    """Whom to run as: ourselves, or when we are root a user without rights."""
    return pwd.getpwuid(os.geteuid()) if os.geteuid() else pwd.getpwnam("nobody")


@pytest.fixture
def their_folder(ordinary) -> Iterator[Path]:
    """A folder of the ordinary user's; pytest's own cannot be entered by others."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="q", dir="/tmp"))
    os.chown(folder, ordinary.pw_uid, ordinary.pw_gid)
    yield folder
    shutil.rmtree(folder)
