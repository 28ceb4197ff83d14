"""Support: submitted notebooks made from the exercise and from the gallery's files."""

import json
from pathlib import Path
from typing import Any

from qlab.classroom.exercises import known

GALLERY = Path(__file__).parent / "gallery"
SOLUTION = Path(__file__).parents[2] / "solutions" / "ex04_idempotent_charge.ipynb"


def gallery(kind: str, exercise: str = "ex04") -> list[Path]:
    """The files of one kind, "wrong" or "right"."""
    return sorted((GALLERY / exercise / kind).glob("*.py"))


def parse(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The answer cells of a gallery file (after `# %% cell id`), and {check: mistake} of its `# fails:`."""
    answers: dict[str, str] = {}
    fails: dict[str, str] = {}
    cell = None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# %% "):
            cell = line.removeprefix("# %% ").strip()
            answers[cell] = ""
        elif cell is not None:
            answers[cell] += line + "\n"
        elif line.startswith("# fails: "):
            pairs = line.removeprefix("# fails: ").split(", ")
            fails = dict(pair.split("=") for pair in pairs)  # type: ignore[misc]
    return answers, fails


def notebook(answers: dict[str, str] | None = None) -> dict[str, Any]:
    """The exercise with these answers; cells that are not named get the reference solution's."""
    reference = {c["id"]: c for c in json.loads(SOLUTION.read_text(encoding="utf-8"))["cells"]}
    made: dict[str, Any] = json.loads(known()["ex04"].read_text(encoding="utf-8"))
    for cell in made["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            cell["source"] = (answers or {}).get(cell["id"], reference[cell["id"]]["source"])
    return made


def hand_in(folder: Path, student: str, content: dict[str, Any] | bytes | None = None) -> Path:
    """Write a submission; None is the reference solution."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{student}_ex04.ipynb"
    if not isinstance(content, bytes):
        content = json.dumps(content or notebook(), ensure_ascii=False).encode()
    path.write_bytes(content)
    return path
