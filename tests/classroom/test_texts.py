"""The sentences of the course: each key that code uses is there, and nothing else is needed to translate."""

import ast
import re
import string
import tomllib
from pathlib import Path

import pytest

from qlab.classroom import texts
from qlab.classroom.checks import OLD_SPELLING
from qlab.classroom.texts import MissingText, names, text

PACKAGE = Path(texts.__file__).parent
FILES = sorted((PACKAGE / "text").rglob("*.toml"))


def calls_of_text() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "text" and node.args:
                found.append((path.name, node))
    return found


def keys(node: ast.expr) -> list[str]:
    """The keys an argument can be: a literal, or either side of a condition."""
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return keys(node.body) + keys(node.orelse)
    return []


def test_every_literal_key_used_in_code_has_its_sentence_and_its_fields():
    used = [(name, node, key) for name, node in calls_of_text() for key in keys(node.args[0])]
    assert len(used) > 20
    for name, node, key in used:
        given = {keyword.arg for keyword in node.keywords}
        if None not in given:
            sentence = text(key, **dict.fromkeys(given, "x"))
            assert sentence, f"{name}: {key}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_text_files_are_toml_in_the_course_spelling(path: Path):
    found = path.read_text(encoding="utf-8")
    tomllib.loads(found)
    assert not OLD_SPELLING.findall(found)
    assert not re.search(r"\b(AI|TODO|FIXME|issue)\b", found)


def test_a_missing_key_is_one_clear_sentence():
    with pytest.raises(MissingText, match=r"no sentence 'nope' in text/vi/predict\.toml"):
        text("predict.nope")
    with pytest.raises(MissingText, match=r"no text/vi/nowhere\.toml"):
        text("nowhere.at_all")
    with pytest.raises(MissingText, match="no sentence"):
        text("board.signs")


def test_a_missing_field_names_the_field():
    with pytest.raises(MissingText, match=r"'wrong' asks for 'actual', given \['guess'\]"):
        text("predict.wrong", guess="1")


def test_another_language_without_texts_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("QLAB_LANG", "xx")
    with pytest.raises(MissingText, match=r"no text/xx/predict\.toml"):
        text("predict.lock")


def test_no_sentence_has_a_stray_brace():
    for path in FILES:
        for sentence in _sentences(tomllib.loads(path.read_text(encoding="utf-8"))):
            list(string.Formatter().parse(sentence))


def test_names_lists_the_ids_of_a_folder():
    assert {"D03", "D10", "00-how"} <= set(names("quiz"))
    assert "00-no-worker" in names("predict")


def _sentences(found: object) -> list[str]:
    if isinstance(found, dict):
        return [s for value in found.values() for s in _sentences(value)]
    if isinstance(found, list):
        return [s for value in found for s in _sentences(value)]
    return [found] if isinstance(found, str) else []
