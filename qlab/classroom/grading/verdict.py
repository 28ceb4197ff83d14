"""What the grader decides, as data."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. Only `passed` gives points; `mistake` names the rule that was broken."""

    check: str
    passed: bool
    mistake: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass
class Grade:
    """One submission: a verdict for every expected check, whatever the file was."""

    student: str
    file: str
    exercise: str
    points: dict[str, int]  # of each check, in order
    verdicts: dict[str, Verdict]
    notes: list[str] = field(default_factory=list)
    own_user: bool = False
    network_cut: bool | None = None  # None: nothing of it was run

    def earned(self, check: str) -> int:
        """Points of one check: all or none."""
        verdict = self.verdicts.get(check)
        return self.points[check] if verdict is not None and verdict.passed else 0

    @property
    def total(self) -> int:
        """Points of the submission."""
        return sum(self.earned(check) for check in self.points)

    @property
    def possible(self) -> int:
        """Points that a right answer gets."""
        return sum(self.points.values())


class Broken(Exception):
    """Raised by a check when a rule is broken: which one, and what was seen."""

    def __init__(self, mistake: str, **evidence: Any) -> None:
        super().__init__(mistake)
        self.mistake = mistake
        self.evidence = evidence
