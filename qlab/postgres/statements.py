"""Loads the SQL files of this package: one statement a file, checked against its header.

Each file begins with comment lines:

    -- <file name>: what it does
    -- params: name type, name type      (or: none)
    -- result: what comes back, and what no row means
    -- keeps:  the invariant that holds before and after
"""

import re
from functools import cache
from importlib.resources import files

FIELDS = ("params", "result", "keeps")


class StatementError(Exception):
    """A SQL file does not say what it does, or says something else than it does."""


@cache
def statement(name: str) -> bytes:
    """The text of `sql/<name>.sql`, as psycopg takes it. Raises StatementError when the header is wrong."""
    text = files("qlab.postgres").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    check(name, text)
    return text.encode()


def check(name: str, text: str) -> None:
    """Raise StatementError when the header of this SQL text does not match its statement."""
    comments = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    body = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    if not comments or not comments[0].startswith(f"{name}:"):
        raise StatementError(f"{name}.sql: the first comment must be '-- {name}: what it does'")
    for field in FIELDS:
        if sum(comment.startswith(f"{field}:") for comment in comments) != 1:
            raise StatementError(f"{name}.sql: the header must have one line '-- {field}:'")
    used = set(re.findall(r"%\((\w+)\)s", body))
    if declared(comments) != used:
        raise StatementError(f"{name}.sql: header names {sorted(declared(comments))}, uses {sorted(used)}")
    if body.count(";") != 1 or not body.rstrip().endswith(";"):
        raise StatementError(f"{name}.sql: write one statement, ended by a semicolon")


def declared(comments: list[str]) -> set[str]:
    """Parameter names of the header's `params:` line."""
    line = next(c for c in comments if c.startswith("params:")).removeprefix("params:").strip()
    return set() if line == "none" else {part.split()[0] for part in line.split(",")}
