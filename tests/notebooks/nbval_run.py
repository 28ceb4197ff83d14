"""Run nbval on one notebook as a learner's own pytest would: in a process, a home and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CELL_TIMEOUT = 60  # seconds; nbval's own default is 2000
LIMIT = 240  # seconds for a whole notebook, many times what one takes

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
EXERCISES = sorted((ROOT / "exercises").glob("*.ipynb"))


@dataclass(frozen=True)
class Result:
    """How the inner pytest ended."""

    status: int
    said: str

    @property
    def passed(self) -> bool:
        """Whether every cell was executed and compared equal."""
        return self.status == 0

    @property
    def failed(self) -> bool:
        """Whether cells ran and some failed: not a crash, not an empty collection, not a wrong option."""
        return self.status == 1


def nbval(path: Path, home: Path, *options: str) -> Result:
    """Compare a fresh run of ``path`` with what is stored; ``home`` holds all that the run may remember."""
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(HERE / "nbval.ini"), f"--rootdir={ROOT}"]
    command += [*(options or ["--nbval"]), "--nbval-current-env", f"--nbval-cell-timeout={CELL_TIMEOUT}"]
    command += [f"--nbval-sanitize-with={HERE / 'sanitize.cfg'}", "--tb=short", "--color=no", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(home), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return Result(done.returncode, done.stdout[-6000:] + done.stderr[-2000:])


def environment(home: Path) -> dict[str, str]:
    """The environment of the inner pytest: the servers of the outer one, and no folder of the user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    own = {
        name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    return kept | own | {"HOME": str(home), "QLAB_HOME": str(home / "qlab")}
