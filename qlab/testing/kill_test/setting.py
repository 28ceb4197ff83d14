"""What one kill-test does, and what must be true of its result."""

import random
from dataclasses import dataclass, field
from typing import Any


class KillTestError(Exception):
    """The kill-test could not be run or did not come to an end; the text says why."""


@dataclass(frozen=True)
class Setting:
    """`kills` workers out of `workers` are killed one after the other. Times are in seconds.

    `work` is what a handler still does after its effects, the window in which a kill makes a rerun.
    `redis_restart` kills Redis in the middle as well; it then writes every command to a file with this
    `appendfsync`. The same `seed` draws the same moments and victims.
    """

    jobs: int = 10_000
    kills: int = 10
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(10**6))
    workers: int = 2
    concurrency: int = 20
    work: float = 0.03
    lock_duration: float = 3.0
    stalled_interval: float = 1.0
    redis_restart: bool = False
    appendfsync: str = "always"

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.kills < 0:
            raise KillTestError("there must be at least 1 job and 0 or more kills")


def broken_promises(result: dict[str, Any]) -> list[str]:
    """One sentence for each promise that the result breaks."""
    total, most = result["TOTAL"], result["kills"] * result["setting"]["concurrency"]
    promises = [
        (result["lost"] == 0, f"{result['lost']} jobs were lost"),
        (result["failed"] == 0, f"{result['failed']} jobs failed although their handler never does"),
        (
            result["effect_idem"] == total,
            f"the idempotent effect happened {result['effect_idem']} times for {total} jobs",
        ),
        (
            result["reruns"] <= most,
            f"{result['reruns']} reruns are more than kills x concurrency = {most}: a job ran twice "
            "although nobody who held it was killed",
        ),
        (
            result["naive_duplicates"] == result["reruns"],
            f"{result['naive_duplicates']} duplicates for {result['reruns']} reruns: the ledger is wrong",
        ),
    ]
    return [sentence for kept, sentence in promises if not kept]
