"""Every SQL file says what it does, and its header cannot drift from its statement."""

from importlib.resources import files

import pytest

from qlab.postgres.statements import StatementError, check, statement

NAMES = sorted(f.name.removesuffix(".sql") for f in files("qlab.postgres").joinpath("sql").iterdir())
GOOD = (
    "-- x: does\n-- params: a int, b text or null\n-- result: one row\n-- keeps:  all\nSELECT %(a)s, %(b)s;\n"
)


def test_there_are_statements() -> None:
    assert "idempotency_claim" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_header_matches_the_statement(name: str) -> None:
    assert statement(name).startswith(b"-- " + name.encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("-- x:", "-- y:", "first comment"),
        ("a int, ", "", "header names"),
        ("%(b)s", "1", "header names"),
        ("-- keeps:  all\n", "", "keeps"),
        ("-- result: one row\n", "-- result: 1\n-- result: 2\n", "result"),
        (";", "", "one statement"),
        (";", "; SELECT 1;", "one statement"),
    ],
)
def test_a_header_that_drifted_is_refused(old: str, new: str, says: str) -> None:
    check("x", GOOD)
    with pytest.raises(StatementError, match=says):
        check("x", GOOD.replace(old, new))
