"""Retries as numbers: when many failed jobs come back, and what the service that they call sees of it.

Simulations without any waiting, so that 5,000 jobs and several minutes cost a moment; the random numbers are
seeded, so two runs give the same figures. Times are seconds from the moment when all the jobs failed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from qlab.retry import Backoff

BIN = 0.05
"""Seconds; requests that arrive within one bin count as arriving together."""

Rule = Callable[[int, Random], float]
"""Seconds to wait after so many failed attempts (1 or more)."""


def rule(backoff: Backoff) -> Rule:
    """The waits of a queue's own backoff."""
    return backoff.delay


def around(base: float, share: float) -> Rule:
    """`base`, 2 * base, 4 * base ... seconds, each made up to `share` longer or shorter."""
    return lambda failures, rng: base * 2.0 ** (failures - 1) * rng.uniform(1 - share, 1 + share)


def first_waits(rule: Rule, jobs: int, seed: int = 1) -> list[float]:
    """How long each of `jobs` jobs waits after its first failure."""
    rng = Random(seed)
    return [rule(1, rng) for _ in range(jobs)]


def in_bins(times: Iterable[float], bin: float = BIN) -> Counter[int]:
    """How many of the times fall in each bin, by the number of the bin."""
    return Counter(int(time / bin + 1e-9) for time in times)


def peak(times: Iterable[float], bin: float = BIN) -> int:
    """The most that arrive within one bin; 0 without any."""
    return max(in_bins(times, bin).values(), default=0)


@dataclass
class Storm:
    """What a recovering service saw: every arrival, how many it refused, and how the jobs ended."""

    arrivals: list[float] = field(default_factory=list)
    refused: int = 0
    done: int = 0
    dead: int = 0


def storm(rule: Rule, jobs: int, capacity: int, *, attempts: int = 5, seed: int = 1) -> Storm:
    """All jobs have failed once; the service is back, answers `capacity` requests a bin and refuses the rest.

    A refused job waits by `rule` and comes again; after `attempts` attempts, the first one counted, it is
    dead.
    """
    rng, seen, taken = Random(seed), Storm(), Counter[int]()
    due = [(rule(1, rng), number, 1) for number in range(jobs)]
    heapq.heapify(due)
    while due:
        at, number, failures = heapq.heappop(due)
        seen.arrivals.append(at)
        bin = int(at / BIN + 1e-9)
        if taken[bin] < capacity:
            taken[bin] += 1
            seen.done += 1
            continue
        seen.refused += 1
        if failures + 1 < attempts:
            heapq.heappush(due, (at + rule(failures + 1, rng), number, failures + 1))
        else:
            seen.dead += 1
    return seen


@dataclass
class Siege:
    """A database under load: requests answered in time, answers that came too late, and what still waits."""

    in_time: int = 0
    in_vain: int = 0
    backlog: list[tuple[float, float]] = field(default_factory=list)
    """(time, requests that wait) at each arrival."""

    @property
    def left(self) -> int:
        """Requests that wait at the end."""
        return round(self.backlog[-1][1]) if self.backlog else 0


def siege(
    rule: Rule, *, workers: int = 50, rate: float = 20.0, backlog: int = 100, patience: float = 2.0,
    until: float = 60.0,
) -> Siege:  # fmt: skip
    """Each worker sends a request, gives up after `patience` seconds, waits by `rule` and sends again.

    The database answers `rate` requests a second in the order of arrival, also those that nobody waits for
    any more; `backlog` requests wait already. An answer in time ends that worker's work. Ends after `until`
    seconds.
    """
    rng, seen, free_at = Random(1), Siege(), backlog / rate
    due = [(0.0, worker, 1) for worker in range(workers)]
    while due and due[0][0] <= until:
        at, worker, attempt = heapq.heappop(due)
        free_at = max(free_at, at) + 1 / rate
        seen.backlog.append((at, (free_at - at) * rate))
        if free_at - at <= patience:
            seen.in_time += 1
            continue
        seen.in_vain += 1
        heapq.heappush(due, (at + patience + rule(attempt, rng), worker, attempt + 1))
    seen.backlog.append((until, max(0.0, (free_at - until) * rate)))
    return seen
