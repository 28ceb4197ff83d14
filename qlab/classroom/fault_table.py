"""Every place where something can break, all tried, as a picture with its text.

    FaultTable({"ACK trước": report_a, "làm trước": report_b})

A report of the explorer (``qlab.testing.explore``, one actor, one fault) becomes a row of cells: effect ×
kind of fault → the worst outcome.  Several protocols stand below each other, so that they can be compared.
The picture holds no times and no ids, so the same handlers always give the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qlab.classroom import markup, notebook
from qlab.classroom.fault_table_svg import Band, Group, draw
from qlab.classroom.fault_words import FAULTS, Names, effect_name, fault_name, outcome_name
from qlab.classroom.texts import text
from qlab.testing.explorer.report import Report, Row


@dataclass(frozen=True)
class FaultTable:
    """The tables of one or more reports, ready to be shown.

    reports: one or more; what each protocol is called, and its report; title: one line that says what to see;
    names: what the lesson calls an effect, by the explorer's name for it ("LPOP jobs": "nhận việc").
    """

    reports: Mapping[str, Report]
    title: str
    names: Names

    def __init__(
        self, reports: Mapping[str, Report], title: str | None = None, *, names: Names | None = None
    ) -> None:
        if not reports:
            raise ValueError("a fault table needs at least one report: pass {name: report}")
        object.__setattr__(self, "reports", dict(reports))
        object.__setattr__(self, "title", text("fault.title") if title is None else title)
        object.__setattr__(self, "names", dict(names or {}))

    def svg(self) -> str:
        """The picture."""
        bands = [self._band(name, report) for name, report in self.reports.items()]
        return draw(bands, self.title, " ".join(self.sentences), self.bounds)

    @property
    def sentences(self) -> list[str]:
        """One sentence for each protocol: where it fails and how."""
        return [self._sentence(name, report) for name, report in self.reports.items()]

    @property
    def bounds(self) -> str:
        """What was tried and what was not; it never says "proved"."""
        reports = self.reports.values()
        faults, switches = max(r.faults for r in reports), max(r.switches for r in reports)
        key = "fault.bounds" if all(report.complete for report in reports) else "fault.stopped"
        return text(key, faults=faults, switches=switches)

    def markdown(self) -> str:
        """The same cells as a table of words, folded under its heading, to be shown below the picture."""
        heads = [text("fault.protocol"), text("fault.effect"), *map(fault_name, FAULTS)]
        lines = [heads, ["---"] * len(heads)]
        for name, report in self.reports.items():
            for row in report.rows:
                cells = [outcome_name(row.outcomes.get(fault)) for fault in FAULTS]
                lines.append([name, self._effect(report, row), *cells])
        table = "\n".join(f"| {' | '.join(map(_in_cell, line))} |" for line in lines)
        return markup.folded(text("fault.in_words"), table)

    def __repr__(self) -> str:
        return "\n".join([self.title, *self.sentences])

    def _ipython_display_(self) -> None:
        notebook.show_picture(self.svg(), text("fault.not_shown", title=self.title), self.markdown())

    def _band(self, name: str, report: Report) -> Band:
        failure = report.shortest_failure
        end = text("fault.shortest", seed=failure.seed) if failure else text("fault.clean")
        groups = [
            Group(self._effect(report, row), tuple((f, row.outcomes.get(f)) for f in FAULTS))
            for row in report.rows
        ]
        return Band(name, f"{text('fault.tried', schedules=report.schedules)} · {end}", tuple(groups))

    def _effect(self, report: Report, row: Row) -> str:
        """What an effect is called; with whose it is, if there are two actors."""
        name = effect_name(row.effect, self.names)
        return f"{row.actor} · {name}" if len({one.actor for one in report.rows}) > 1 else name

    def _sentence(self, name: str, report: Report) -> str:
        places: dict[str, list[str]] = {}
        for row in report.rows:
            for outcome in dict.fromkeys(row.outcomes.values()):
                if outcome not in (None, "once"):
                    hit = ", ".join(fault_name(f) for f in FAULTS if row.outcomes.get(f) == outcome)
                    effect = self._effect(report, row)
                    where = text("fault.told_place", effect=effect, faults=hit)
                    places.setdefault(outcome_name(outcome), []).append(where)
        told = "; ".join(f"{outcome}: {', '.join(where)}" for outcome, where in places.items())
        return text("fault.told_bad" if places else "fault.told_clean", name=name, places=told)


def _in_cell(words: str) -> str:
    """Words as they can stand in a table of Markdown."""
    return words.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
