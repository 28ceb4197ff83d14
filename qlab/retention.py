"""How many finished jobs to keep, and for how long."""

from dataclasses import dataclass

from qlab.retry import Seconds, milliseconds


@dataclass(frozen=True)
class Keep:
    """Keep finished jobs up to `age` (seconds) and up to `count`, whichever ends first; None: no limit.

    The rule is applied to the set when a job enters it, not by a timer.
    """

    age: Seconds | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.age is not None:
            milliseconds(self.age, "age to keep")
        if self.count is not None and (
            isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0
        ):
            raise ValueError(f"count to keep must be a whole number of at least 0, not {self.count!r}")

    def encode(self) -> str:
        """The form kept in the job's hash: `age in ms:count`, an empty part for no limit."""
        age = "" if self.age is None else str(milliseconds(self.age, "age to keep"))
        return f"{age}:{'' if self.count is None else self.count}"


COMPLETED = Keep(age=3600, count=1000).encode()
"""Default for completed jobs: one hour, at most 1,000."""

FAILED = Keep().encode()
"""Default for failed jobs: a dead letter is never trimmed silently."""


def encode(remove: bool | int | Keep) -> str:
    """`remove_on_complete` or `remove_on_fail` as stored: True removes at once, False keeps all, a number
    keeps that many."""
    if isinstance(remove, Keep):
        return remove.encode()
    if isinstance(remove, bool):
        return Keep(count=0).encode() if remove else Keep().encode()
    return Keep(count=remove).encode()
