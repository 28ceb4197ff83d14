"""A job as it is given to `add`: checked completely before anything is sent."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from qlab import payload, retention
from qlab.errors import PayloadError
from qlab.job import JobRecord
from qlab.keys import check_job_id
from qlab.retention import Keep
from qlab.retry import Backoff, Seconds, milliseconds

MAX_PRIORITY = 2**21
"""Priorities go from 1 (most urgent) to 2,097,152; a job without a priority comes before all of them."""


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Add nothing while another add with the same `key` is younger than `ttl` seconds (a throttle: the
    first one counts)."""

    key: str
    ttl: Seconds

    def __post_init__(self) -> None:
        check_job_id(self.key, "deduplication key")
        if milliseconds(self.ttl, "ttl of a deduplication") < 1:
            raise ValueError("ttl of a deduplication must be more than 0 seconds")


class NewJob(NamedTuple):
    """A job that has been checked but not yet added."""

    id: str
    own_id: bool
    name: str
    data: str
    delay: int
    deduplicate: Deduplicate | None
    options: dict[str, Any]

    @classmethod
    def make(
        cls,
        name: str,
        data: Any,
        max_data: int,
        *,
        job_id: str | None = None,
        delay: Seconds = 0,
        priority: int | None = None,
        attempts: int = 1,
        backoff: Backoff | None = None,
        timeout: Seconds | None = None,
        deduplicate: Deduplicate | None = None,
        remove_on_complete: bool | int | Keep | None = None,
        remove_on_fail: bool | int | Keep | None = None,
    ) -> NewJob:
        """Check everything; see Queue.add. Raises PayloadError, ValueError or TypeError."""
        if not isinstance(name, str) or not name or payload.clean_text(name) != name:
            raise ValueError(
                "job name must be a string of 1 to 16,000 characters, valid Unicode without NUL, not "
                f"{name!r:.100}"
            )
        if backoff is not None and not isinstance(backoff, Backoff):
            raise ValueError(
                "backoff must be made with Backoff.fixed, Backoff.exponential or Backoff.custom, not "
                f"{backoff!r}; a function of your own is an option of the Worker"
            )
        if deduplicate is not None and not isinstance(deduplicate, Deduplicate):
            raise ValueError(f"deduplicate must be a Deduplicate(key, ttl), not {deduplicate!r}")
        options: dict[str, Any] = {}  # only what was given: it is checked, sent and stored
        if _within(attempts, "attempts (the first run counts)", 1, 2**31) != 1:
            options["attempts"] = attempts
        if priority is not None:
            options["priority"] = _within(priority, "priority", 1, MAX_PRIORITY)
        if backoff is not None:
            options["backoff"] = backoff.encode()
        if timeout is not None:
            options["timeout"] = _limit(timeout)
        if remove_on_complete is not None:
            options["keep_completed"] = retention.encode(remove_on_complete)
        if remove_on_fail is not None:
            options["keep_failed"] = retention.encode(remove_on_fail)
        own_id = job_id is not None
        job_id = check_job_id(job_id) if own_id else os.urandom(8).hex()
        text, ms = payload.encode(data, limit=max_data), milliseconds(delay, "delay")
        return cls(job_id, own_id, name, text, ms, deduplicate, options)

    @classmethod
    def for_tick(cls, schedule_id: str, tick: int, name: str, data: str, options: dict[str, Any]) -> NewJob:
        """The job of one nominal tick (ms) of a schedule."""
        options = options | {"scheduler": schedule_id, "nominal": tick}
        return cls(f"repeat-{schedule_id}-{tick}", True, name, data, 0, None, options)

    def arguments(self) -> list[Any]:
        """As the script add_jobs reads it."""
        fields = ["name", self.name, "data", self.data]
        for option in self.options.items():
            fields += option
        key, ttl = "", 0
        if self.deduplicate:
            key, ttl = self.deduplicate.key, milliseconds(self.deduplicate.ttl, "ttl")
        priority = self.options.get("priority", "")
        return [self.id, self.delay, priority, key, ttl, len(fields), *fields]

    def is_duplicate(self, job_id: str) -> bool:
        """What it means that job `job_id` was there already: an id that was made here is there by our own
        command, repeated by something in between."""
        return self.own_id or job_id != self.id

    def record(self, birth: str, now: str = "") -> JobRecord:
        """What the job's hash holds right after the add; `now` (ms) is the clock that a test gave."""
        state = "delayed" if self.delay else "prioritized" if "priority" in self.options else "waiting"
        added_at = int(now or birth.partition("-")[0])
        return JobRecord(self.id, self.name, self.data, state, birth, added_at, **self.options)


OPTIONS = [
    name for name, one in inspect.signature(NewJob.make).parameters.items() if one.kind is one.KEYWORD_ONLY
]


def check_bulk(jobs: Iterable[tuple[Any, ...]], max_data: int) -> list[NewJob]:
    """Check all jobs of a bulk; an error names the index (from 0) of the first bad one."""
    if not isinstance(jobs, Iterable):
        raise TypeError(f"jobs must be a list of (name, data) or (name, data, options), not {jobs!r:.100}")
    new = []
    for index, entry in enumerate(jobs):
        try:
            if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
                raise ValueError(f"write (name, data) or (name, data, options as a dict), not {entry!r:.100}")
            name, data, *options = entry
            new.append(NewJob.make(name, data, max_data, **(known_options(options[0]) if options else {})))
        except PayloadError as error:
            raise PayloadError(f"job {index} of the bulk (counted from 0): {error}") from None
        except (ValueError, TypeError) as error:
            raise type(error)(f"job {index} of the bulk (counted from 0): {error}") from None
    return new


def known_options(given: object) -> dict[str, Any]:
    """Options for `make`. Raises ValueError for no dict, TypeError for an option that there is not."""
    if not isinstance(given, dict):
        raise ValueError("options must be a dict of the options of add, such as {'attempts': 3}")
    if unknown := [name for name in given if name not in OPTIONS]:
        raise TypeError(f"unknown options {', '.join(map(repr, unknown))}; there are {', '.join(OPTIONS)}")
    return given


def _within(value: object, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {value!r}")
    return value


def _limit(timeout: Seconds) -> int:
    limit = milliseconds(timeout, "timeout")
    if limit < 1:
        raise ValueError("timeout must be more than 0 seconds")
    return limit
