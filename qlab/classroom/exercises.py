"""Exercises: generated from their solutions, copied for the learner, never overwritten.

    python -m qlab.classroom.exercises         writes exercises/ from solutions/
    make start EX=ex04                         copies one exercise to my/

A solution marks what the learner writes as nbgrader does, with `### BEGIN SOLUTION` and `### END SOLUTION`.
Cells tagged `solution-only` are left out.
"""

import copy
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from qlab.classroom import handout as _handout
from qlab.classroom.texts import text

ROOT = Path(__file__).resolve().parents[2]
BEGIN = re.compile(r"^\s*### BEGIN SOLUTION\s*$")
END = re.compile(r"^\s*### END SOLUTION\s*$")


class ExerciseError(Exception):
    """One sentence for the learner or the author: what is wrong and what to do."""


def clear_solution(source: str, where: str = "cell") -> str:
    """The source with each marked block replaced by a stub at the block's own indentation.

    Raises ExerciseError for marks that do not pair.
    """
    kept: list[str] = []
    inside = False
    for line in source.splitlines():
        if BEGIN.match(line):
            if inside:
                raise ExerciseError(f"{where}: BEGIN SOLUTION inside a block; put END SOLUTION before it")
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + stub for stub in _stub()]
        elif END.match(line):
            if not inside:
                raise ExerciseError(f"{where}: END SOLUTION without BEGIN SOLUTION before it")
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        raise ExerciseError(f"{where}: BEGIN SOLUTION is never closed; add END SOLUTION")
    return "\n".join(kept)


def _stub() -> tuple[str, str]:
    """What stands in the place of a solution."""
    error = text("exercises.stub_error")
    return f"# {text('exercises.stub_comment')}", f'raise NotImplementedError("{error}")'


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


def make_exercise(solution: NotebookNode) -> NotebookNode:
    """The exercise of a solution. Check cells keep their outputs: these are the expected results.

    Raises ExerciseError when an answer cell has no marked block, or when no cell is to be answered.
    """
    exercise = copy.deepcopy(solution)
    exercise.cells = [cell for cell in exercise.cells if "solution-only" not in tags(cell)]
    answers = 0
    for cell in exercise.cells:
        if cell.cell_type != "code":
            continue
        cleared = clear_solution(cell.source, f"cell {cell.id}")
        if "answer" in tags(cell):
            answers += 1
            if cleared == cell.source:
                raise ExerciseError(f"cell {cell.id} is tagged answer but has no BEGIN SOLUTION block")
            cell.outputs = []
        elif cleared != cell.source:
            raise ExerciseError(f"cell {cell.id} has a solution block but is not tagged answer")
        cell.source = cleared
    if not answers:
        raise ExerciseError("the solution has no cell tagged answer, so there is nothing to solve")
    return exercise


def dumps(notebook: NotebookNode) -> str:
    """A notebook as text, always the same for the same cells."""
    written: str = nbformat.writes(notebook)
    return written.rstrip("\n") + "\n"


def generated(solution: Path) -> str:
    """The text of the exercise notebook that belongs to this solution."""
    notebook: NotebookNode = nbformat.reads(solution.read_text("utf-8"), as_version=4)
    return dumps(make_exercise(notebook))


def regenerate(root: Path = ROOT) -> list[Path]:
    """Write every exercise from its solution and return the paths that changed."""
    solutions = sorted((root / "solutions").glob("ex*.ipynb"))
    if not solutions:
        raise ExerciseError("there is no solutions/ with notebooks here; run this in a full clone")
    changed = []
    for solution in solutions:
        target = root / "exercises" / solution.name
        made = generated(solution)
        if not target.exists() or target.read_text(encoding="utf-8") != made:
            target.parent.mkdir(exist_ok=True)
            target.write_text(made, encoding="utf-8")
            changed.append(target)
    return changed


def known(root: Path = ROOT) -> dict[str, Path]:
    """The exercises by their short names: {"ex04": .../ex04_idempotent_charge.ipynb}."""
    return {path.name.split("_")[0]: path for path in sorted((root / "exercises").glob("ex*_*.ipynb"))}


def start(name: str, root: Path = ROOT) -> tuple[Path, bool]:
    """Copy an exercise to my/. Returns the learner's file and whether it is new; an old one is left as it is.

    Raises ExerciseError for an exercise that does not exist.
    """
    found = known(root)
    short = name.strip().lower().removesuffix(".ipynb").split("_")[0]
    if short not in found:
        names = ", ".join(found) or text("exercises.none")
        key = "exercises.unknown" if name.strip() else "exercises.unnamed"
        raise ExerciseError(text(key, asked=repr(name), names=names))
    target = root / "my" / found[short].name
    if target.exists():
        return target, False
    target.parent.mkdir(exist_ok=True)
    partial = target.with_suffix(".part")
    shutil.copyfile(found[short], partial)
    partial.rename(target)  # a copy that was cut short never looks like the learner's work
    return target, True


def main_start(name: str) -> int:
    """`make start EX=...`: 0 when the learner has a copy, 2 with one sentence otherwise."""
    try:
        path, new = start(name)
    except (ExerciseError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    shown = path.relative_to(ROOT)
    print(text("exercises.copied" if new else "exercises.kept", path=shown))
    print(text("exercises.open", path=shown))
    return 0


def main_handout(target: str | None = None) -> int:
    """`make handout`: packs the course for learners, without solutions and grading."""
    return _handout.main(ROOT, target)


def main() -> int:
    """`python -m qlab.classroom.exercises`: regenerate."""
    try:
        changed = regenerate()
    except ExerciseError as error:
        print(error, file=sys.stderr)
        return 2
    for path in changed:
        print(f"wrote {path.relative_to(ROOT)}")
    print(f"{len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
