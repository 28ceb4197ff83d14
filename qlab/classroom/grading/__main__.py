"""`python -m qlab.classroom.grading DIR [pytest options]`: grades from any folder, whatever is in DIR.

Until pytest has read its settings it takes the DIR of `--submissions DIR` for a folder of tests, and runs a
conftest.py found there when DIR lies outside the course. This command does not let it.
"""

import sys
from pathlib import Path

import pytest

from qlab.classroom.exercises import ROOT


def main(arguments: list[str]) -> int:
    """Run pytest for the folder; its exit code is 0 when every submission has full marks."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m qlab.classroom.grading DIR [pytest options]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    return int(pytest.main([*settings, f"--submissions={folder}", *arguments[1:]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
