"""Reading a notebook's cells: their code as a syntax tree, their outputs as text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any


def tree(source: str) -> ast.Module | None:
    """Parse a code cell, without its magics; None when the rest is not Python."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        parsed = compile(
            "\n".join(lines),
            "<cell>",
            "exec",
            ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
    except SyntaxError:
        return None
    assert isinstance(parsed, ast.Module)
    return parsed


def nodes(source: str, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of these kinds in a code cell."""
    parsed = tree(source)
    if parsed is not None:
        yield from (node for node in ast.walk(parsed) if isinstance(node, kinds))


def first_arguments(source: str, function: str) -> list[str]:
    """The literal first argument of each call of ``function`` (by its last name): the ids a cell uses."""
    found = []
    for node in nodes(source, ast.Call):
        assert isinstance(node, ast.Call)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        first = node.args[0] if node.args else None
        if name == function and isinstance(first, ast.Constant) and isinstance(first.value, str):
            found.append(first.value)
    return found


def asserts(source: str) -> bool:
    """Whether the cell asserts something."""
    return any(True for _ in nodes(source, ast.Assert))


def output_texts(cell: Any) -> Iterator[str]:
    """Each text that the cell printed or shows: streams, text, HTML, SVG, error names and messages."""
    for output in cell.get("outputs", []):
        yield from (output[key] for key in ("text", "ename", "evalue") if key in output)
        for mime, data in output.get("data", {}).items():
            if not mime.startswith(("image/png", "image/jpeg")):
                yield data if isinstance(data, str) else str(data)


def pictures(cell: Any) -> Iterator[tuple[str, str]]:
    """Each SVG the cell shows, with the plain text stored beside it."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        for mime in ("image/svg+xml", "text/html"):
            if "<svg" in data.get(mime, ""):
                yield data[mime], data.get("text/plain", "")
