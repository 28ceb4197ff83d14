"""Every sentence a learner reads outside a notebook's own prose, looked up by key.

The sentences live in ``text/<language>/*.toml``, so a translation changes text files and
Markdown cells and no code. The language is ``$QLAB_LANG``, else Vietnamese. There is no
fall-back from one language to another: half a translation should be noticed at once.
"""

from __future__ import annotations

import os
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "text"
DEFAULT_LANGUAGE = "vi"


class MissingText(LookupError):
    """A key, a text file or a language that the text folder does not hold."""


def language() -> str:
    """The language in use: ``$QLAB_LANG``, else ``vi``."""
    return os.environ.get("QLAB_LANG") or DEFAULT_LANGUAGE


def load(name: str) -> dict[str, Any]:
    """Return the whole text file ``name`` (``"board"``, ``"quiz/D03"``); the caller must not change it.

    Raises MissingText when there is no such file and when it is not valid TOML.
    """
    return _read(language(), name)


def names(folder: str) -> list[str]:
    """The ids that have a text file in ``folder`` (``"quiz"``, ``"predict"``), sorted."""
    return sorted(path.stem for path in (FOLDER / language() / folder).glob("*.toml"))


def text(key: str, **fields: object) -> str:
    """Return the sentence ``file.key`` (or ``file.table.key``) with its ``{fields}`` filled in.

    Raises MissingText when the key is not there, is not a sentence, or needs another field.
    """
    name, _, path = key.partition(".")
    found: Any = load(name)
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, str):
        raise MissingText(f"no sentence {path!r} in text/{language()}/{name}.toml: add it there")
    try:
        return found.format(**fields) if fields else found
    except (KeyError, IndexError) as error:
        raise MissingText(
            f"text/{language()}/{name}.toml: {path!r} asks for {error}, given {sorted(fields)}"
        ) from None


@lru_cache(maxsize=256)
def _read(lang: str, name: str) -> dict[str, Any]:
    path = FOLDER / lang / f"{name}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingText(f"there is no text/{lang}/{name}.toml: check the id, or add the file") from None
    except tomllib.TOMLDecodeError as error:
        raise MissingText(f"text/{lang}/{name}.toml is not valid TOML: {error}") from None
