"""Packs the course for learners: every tracked file except solutions, and what would give an answer away.

The archive depends on the files alone: the same files give the same bytes, whenever and wherever it is made.
"""

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

NAME = "qlab-course"
TEACHERS_ONLY = ("solutions", "tests/grading", "qlab/classroom/grading", "qlab/classroom/text/vi/grading")
TEACHERS_FILES = ("docs/instructor.md",)
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


class HandoutError(Exception):
    """One sentence: why the course cannot be packed."""


def is_for_learners(path: str) -> bool:
    """False for solutions, the grader, its tests and its gallery of wrong answers."""
    parents = {str(parent) for parent in PurePosixPath(path).parents}
    return path not in TEACHERS_FILES and not parents.intersection(TEACHERS_ONLY)


def tracked(root: Path) -> list[str]:
    """The files that git tracks, sorted. Raises HandoutError outside a clone."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    except FileNotFoundError:
        raise HandoutError("git is missing; `make handout` packs the files that git tracks") from None
    except subprocess.CalledProcessError:
        raise HandoutError("this is no git clone; `make handout` packs the files that git tracks") from None
    return sorted(name.decode() for name in listed.stdout.split(b"\0") if name)


def pack(root: Path, target: Path) -> list[str]:
    """Write the archive and return the names in it. Raises HandoutError."""
    names = [name for name in tracked(root) if is_for_learners(name) and (root / name).is_file()]
    if not names:
        raise HandoutError("git tracks no files here, so there is nothing to pack")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in names:
            path = root / name
            info = zipfile.ZipInfo(f"{NAME}/{name}", _FIXED_DATE)
            info.external_attr = (0o100755 if path.stat().st_mode & 0o100 else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # modes are Unix modes, whoever packs
            archive.writestr(info, path.read_bytes())
    partial.replace(target)
    return names


def main(root: Path, target: str | None = None) -> int:
    """Pack to `target`, else to dist/qlab-course.zip; 0, or 2 with one sentence."""
    path = Path(target) if target else root / "dist" / f"{NAME}.zip"
    try:
        names = pack(root, path)
    except (HandoutError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path.name}: {len(names)} files, without {', '.join(TEACHERS_ONLY + TEACHERS_FILES)}")
    return 0
