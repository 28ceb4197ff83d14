"""What this learner has guessed, proved and passed, kept on disk.

One fact is one small JSON file (``D03.run.json``, ``D03.quiz.json``, ``03-charges.guess.json``),
written to a side file and renamed. Several notebooks can therefore write at once without a lock,
and one damaged file costs one fact. The folder is ``$QLAB_HOME/progress``, else ``.qlab/progress``
beside ``notebooks/``. Nothing here ever stops a lesson: when the folder cannot be written,
progress lives until the kernel ends and a notice says so.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .texts import load, text

KINDS = ("run", "quiz", "guess")
LINE = 100  # characters that a notebook shows beside each other
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def home() -> Path:
    """The folder of all that the course remembers: ``$QLAB_HOME``, else ``.qlab`` in the course."""
    chosen = os.environ.get("QLAB_HOME")
    if chosen:
        return Path(chosen).expanduser()
    course = Path(__file__).resolve().parents[2]
    return (course if (course / "notebooks").is_dir() else Path.cwd()) / ".qlab"


@dataclass(frozen=True)
class Proof:
    """One "Done khi" item proved by a run; shows itself below the cell, in one line if that is short."""

    item: str
    evidence: Mapping[str, Any]

    def __repr__(self) -> str:
        facts = ", ".join(f"{key}={value!r}" for key, value in self.evidence.items())
        said = text("progress.proved", item=self.item, evidence=facts)
        return textwrap.fill(
            said, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )


class Progress:
    """The facts in one folder. ``notices`` holds what could not be read or saved, one sentence each."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder) if folder is not None else home() / "progress"
        self.notices: list[str] = []
        self._unsaved: dict[tuple[str, str], dict[str, Any]] = {}

    def prove(self, item: str, evidence: Mapping[str, Any]) -> Proof:
        """Record that an asserted run proved ``item`` ("D03"), with the figures that show it.

        Raises ValueError for an unknown item, and for evidence that is empty or not plain JSON.
        """
        if item not in load("board")["items"]:
            raise ValueError(f"there is no item {item!r} on the board: it has D01 to D23")
        if not isinstance(evidence, Mapping) or not evidence:
            raise ValueError("a proof needs evidence: a dictionary of the figures the run printed")
        self._write(item, "run", {"evidence": dict(evidence)})
        return Proof(item, evidence)

    def pass_quiz(self, quiz: str, tries: Mapping[str, int]) -> None:
        """Record that every question of ``quiz`` was answered, and how many tries each one took."""
        self._write(quiz, "quiz", {"tries": dict(tries)})

    def remember_guess(self, prediction: str, choice: str, why: str) -> None:
        """Record the guess locked for a prediction."""
        self._write(prediction, "guess", {"choice": choice, "why": why})

    def guess(self, prediction: str) -> dict[str, Any] | None:
        """Return the remembered guess (``choice``, ``why``, ``at``), or None."""
        found = self._read(prediction, "guess")
        return found if found is not None and isinstance(found.get("choice"), str) else None

    @property
    def items(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What is proved: ``{"D03": {"run": {...}, "quiz": {...}}}``; an item with neither is left out."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for item in load("board")["items"]:
            facts = {kind: fact for kind in ("run", "quiz") if (fact := self._read(item, kind)) is not None}
            if facts:
                found[item] = facts
        return found

    def _write(self, name: str, kind: str, fact: dict[str, Any]) -> None:
        path = self._path(name, kind)
        fact = {**fact, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            body = json.dumps(fact, ensure_ascii=False, allow_nan=False, indent=1)
        except (TypeError, ValueError) as error:
            raise ValueError(f"evidence must be plain JSON (numbers, texts, lists, dicts): {error}") from None
        try:
            _replace(path, body)
            self._unsaved.pop((name, kind), None)
        except OSError as error:
            self._unsaved[name, kind] = fact
            self._notice(text("progress.not_saved", folder=self.folder, reason=_reason(error)))

    def _read(self, name: str, kind: str) -> dict[str, Any] | None:
        if (name, kind) in self._unsaved:
            return self._unsaved[name, kind]
        path = self._path(name, kind)
        try:
            fact = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self._set_aside(path, _reason(error))
            return None
        if not isinstance(fact, dict):
            self._set_aside(path, text("progress.not_a_record"))
            return None
        return fact

    def _set_aside(self, path: Path, reason: str) -> None:
        """Keep a damaged file under another name, so that nothing is lost and the next save works."""
        backup = path.with_name(f"{path.name}.broken")
        number = 1
        while backup.exists():
            number += 1
            backup = path.with_name(f"{path.name}.broken-{number}")
        try:
            path.rename(backup)
            self._notice(
                text(
                    "progress.set_aside",
                    file=path.name,
                    backup=backup.name,
                    reason=reason,
                )
            )
        except OSError:
            self._notice(text("progress.unreadable", file=path.name, reason=reason))

    def _notice(self, sentence: str) -> None:
        if sentence not in self.notices:
            self.notices.append(sentence)

    def _path(self, name: str, kind: str) -> Path:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a progress file: use letters, digits, - and _")
        return self.folder / f"{name}.{kind}.json"


def current() -> Progress:
    """The learner's own progress; one object for each folder, so that notices are kept."""
    folder = home() / "progress"
    return _OPENED.setdefault(folder, Progress(folder))


def prove(item: str, evidence: Mapping[str, Any]) -> Proof:
    """Record that the run just asserted proved ``item``; see Progress.prove."""
    return current().prove(item, evidence)


_OPENED: dict[Path, Progress] = {}


def _replace(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, side = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(body)
        Path(side).replace(path)
    except BaseException:
        Path(side).unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    """The short cause of a failure, without a path: the sentence around it already names the file."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return text("progress.not_json")
