"""The doctor in a notebook: the checks of ``python -m qlab doctor`` with a progress bar and a table."""

from __future__ import annotations

import os
import re
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from qlab.ops.doctor import Check, diagnose

from . import markup
from .texts import load, text


class Bar(widgets.VBox):
    """A bar with a line of text; what is stored of it is one fixed line."""

    def __init__(self) -> None:
        self.bar = widgets.IntProgress(min=0, max=1, layout={"width": "420px"})
        self.line = widgets.Label(text("checkup.began"))
        super().__init__([self.bar, self.line])

    def note(self, check: Check, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` checks are behind us."""
        self.bar.max, self.bar.value = total, done
        self.line.value = text("checkup.running", name=_name(check), done=done, total=total)

    def __repr__(self) -> str:
        return text("checkup.began")


class Checkup:
    """What the doctor found on this machine, shown as a table with a text equivalent."""

    def __init__(self, checks: list[Check]) -> None:
        self.checks = checks

    @classmethod
    def run(cls) -> Checkup:
        """Run all checks (about two seconds) with a bar that goes away at the end."""
        bar = Bar()
        display(bar)
        try:
            return cls(diagnose(bar.note))
        finally:
            bar.close()

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.ok]

    def summary(self) -> str:
        """One sentence: all is well, or how many checks are not and where to look."""
        counts = {"failed": len(self.failed), "total": len(self.checks)}
        return text("checkup.some_failed" if self.failed else "checkup.all_well", **counts)

    def __repr__(self) -> str:
        lines = [self.summary()]
        for check in self.checks:
            state = text("checkup.ok" if check.ok else "checkup.failed")
            lines.append(
                f"{state} · {_name(check)}: {_detail(check)}{'  → ' if check.fix else ''}{_fix(check)}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        columns = ["column_state", "column_name", "column_detail"] + (["column_fix"] if self.failed else [])
        heads = [text(f"checkup.{column}") for column in columns]
        rows = [_row(check)[: len(columns)] for check in self.checks]
        return f"<p><strong>{self.summary()}</strong></p>{markup.table(heads, rows)}"


def _row(check: Check) -> list[str]:
    state = text("checkup.ok" if check.ok else "checkup.failed")
    return [state, _name(check), markup.inline(_detail(check)), markup.inline(_fix(check))]


def _name(check: Check) -> str:
    """The check's name in the learner's language."""
    return str(_of("names", check, check.name))


def _fix(check: Check) -> str:
    """What to do, in the learner's language; empty when all is well."""
    return str(_of("fixes", check, check.fix)) if check.fix else ""


def _of(section: str, check: Check, otherwise: Any) -> Any:
    return load("checkup")[section].get(check.name.replace(" ", "-"), otherwise)


def _detail(check: Check) -> str:
    """What was found, in the learner's language where there is a sentence for it.

    The progress folder goes by its variable, since its path is nobody else's business.
    """
    home = os.environ.get("QLAB_HOME")
    found = check.detail.replace(home, "$QLAB_HOME") if home else check.detail
    english, vietnamese = _of("details", check, (re.escape(found), None))
    match = re.fullmatch(english, found)
    return match.expand(vietnamese) if match and vietnamese else found
