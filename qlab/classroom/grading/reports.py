"""The reports of a class: gradebook.csv, results.json, report.html. Keys are English, sentences are not."""

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jinja2

from qlab.classroom.grading import words

TEMPLATE = Path(__file__).with_name("report.html.j2")
Row = dict[str, Any]  # one check of one submission, as `row` makes it


def summarise(rows: list[Row], conditions: dict[str, Any]) -> dict[str, Any]:
    """Everything the reports show, from the rows of all checks, in a fixed order."""
    files: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["student"], row["file"], row["order"])):
        files[row["student"], row["file"]].append(row)
    submissions = [_submission(checks) for checks in files.values()]
    return {
        "conditions": conditions,
        "submissions": submissions,
        "misconceptions": misconceptions(rows),
    }


def _submission(checks: list[Row]) -> dict[str, Any]:
    keys = ("check", "title", "points", "of", "verdict", "mistake", "explanation", "evidence")
    return {
        "student": checks[0]["student"],
        "file": checks[0]["file"],
        "exercise": checks[0]["exercise"],
        "points": sum(row["points"] for row in checks),
        "of": sum(row["of"] for row in checks),
        "notes": sorted({note for row in checks for note in row["notes"]}),
        "checks": [{key: row[key] for key in keys} for row in checks],
    }


def misconceptions(rows: list[Row]) -> list[dict[str, Any]]:
    """Each mistake of the class with those who made it, the most frequent first."""
    who: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["mistake"]:
            who[row["exercise"], row["mistake"]].add(row["student"])
    ordered = sorted(who.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "exercise": exercise,
            "mistake": mistake,
            "count": len(students),
            "students": sorted(students),
            "explanation": words.explain(exercise, mistake),
        }
        for (exercise, mistake), students in ordered
    ]


def write(folder: Path, summary: dict[str, Any]) -> list[Path]:
    """Write the three reports and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    book, results, page = folder / "gradebook.csv", folder / "results.json", folder / "report.html"
    _write_csv(book, summary["submissions"])
    results.write_text(
        json.dumps(summary, ensure_ascii=False, indent=1, default=str) + "\n", encoding="utf-8"
    )
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    page.write_text(template.render(say=words.report, **summary), encoding="utf-8")
    return [book, results, page]


def _write_csv(path: Path, submissions: list[dict[str, Any]]) -> None:
    """Students × checks. The byte order mark lets a spreadsheet read Vietnamese names."""
    checks = list(dict.fromkeys(_column(s, c) for s in submissions for c in s["checks"]))
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "exercise", "file", "points", "of", *checks, "mistakes"])
        for submission in submissions:
            points = {_column(submission, check): check["points"] for check in submission["checks"]}
            mistakes = dict.fromkeys(check["mistake"] for check in submission["checks"] if check["mistake"])
            start = [submission[key] for key in ("student", "exercise", "file", "points", "of")]
            cells = [*start, *(points.get(check, "") for check in checks), " ".join(mistakes)]
            writer.writerow([_plain(cell) for cell in cells])


def _column(submission: dict[str, Any], check: dict[str, Any]) -> str:
    return f"{submission['exercise']}:{check['check']}"


def _plain(cell: Any) -> Any:
    """A name that a spreadsheet would take for a formula stays a name."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
