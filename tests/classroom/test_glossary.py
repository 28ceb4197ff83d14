"""The glossary: one row a term, one sentence each, lessons that are on the map, the course's spelling."""

import re
from pathlib import Path

import pytest

from qlab.classroom.board import lessons
from qlab.classroom.checks import OLD_SPELLING

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
NEEDED = [
    *("job", "queue", "worker", "handler", "broker", "side effect", "lease", "stalled job", "fencing token"),
    *(
        "at-most-once",
        "at-least-once",
        "exactly-once",
        "idempotent",
        "idempotency key",
        "claim",
        "lock token",
    ),
    *(
        "dead-letter queue (DLQ)",
        "jitter",
        "thundering herd",
        "cursor",
        "token bucket",
        "SIGKILL",
        "LockLost",
    ),
]


def rows() -> list[tuple[str, str, str]]:
    found = [ROW.match(line) for line in GLOSSARY.read_text(encoding="utf-8").splitlines()]
    return [match.groups() for match in found if match and match.group(1) not in ("Thuật ngữ", "---")]


def test_each_term_is_there_once():
    terms = [term for term, _, _ in rows()]
    assert len(terms) >= 75
    assert len({term.lower() for term in terms}) == len(terms)
    assert set(NEEDED) <= set(terms)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_is_one_sentence_and_names_lessons_of_the_plan(row: tuple[str, str, str]):
    _, says, where = row
    assert says.endswith(".")
    assert says[0].isupper() or not says[0].isalpha()
    known = {lesson.number for lesson in lessons()} | {f"ex{number:02}" for number in range(1, 11)}
    assert {place.strip() for place in where.split(",")} <= known


def test_it_is_written_in_the_courses_spelling():
    assert OLD_SPELLING.findall(GLOSSARY.read_text(encoding="utf-8")) == []
