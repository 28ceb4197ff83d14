"""An effect that must not happen twice, guarded by a row: PENDING while somebody works on it, then DONE.

    outcome = await run_once(pool, "charge:o-1", effect, lock_seconds=75, request={"amount": 100})

The claim is committed before the effect is called, so everybody sees it. Each claim has its own token; only
the newest token can store a result or release the lock. This is not exactly-once: a process that dies between
the effect and DONE leaves a key whose lock runs out, and the next one runs the effect again. So pass the same
key on to whoever carries out the effect, and let them deduplicate.

No function takes a second connection while it holds one, and none holds one while the effect runs: a pool of
one works.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from qlab.postgres.connections import (
    Connection,
    Source,
    connection,
    fetch_all,
    fetch_one,
    install_tables,
    joined_transaction,
    touched,
    transaction_on,
)
from qlab.postgres.errors import (
    ClaimLost,
    ConnectionUnusable,
    IdempotencyError,
    KeyBusy,
    KeyMismatch,
    NotInstalled,
)
from qlab.postgres.values import aware, function, json_text, lock_time, short_text, whole
from qlab.retry import Seconds, seconds
from qlab.tasks import outcome_of

__all__ = [
    "Claim",
    "ClaimLost",
    "ConnectionUnusable",
    "Done",
    "IdempotencyError",
    "KeyBusy",
    "KeyMismatch",
    "NotInstalled",
    "Outcome",
    "abandoned",
    "claim",
    "cleanup",
    "done",
    "install",
    "lock_seconds",
    "release",
    "run_once",
]

_CLAIM_TRIES = 5  # a row can vanish between claim and look only when somebody deletes keys
TABLE = "idempotency_key"


@dataclass(frozen=True)
class Claim:
    """The key is ours until `locked_until`, under this token."""

    key: str
    token: UUID
    locked_until: datetime


@dataclass(frozen=True)
class Done:
    """The effect has happened before; `result` is what it stored, types included."""

    key: str
    result: Any


@dataclass(frozen=True)
class Outcome:
    """What `run_once` gives back. `ran` is False when the result is a stored one."""

    result: Any
    ran: bool


def lock_seconds(timeout: float, retries: int, backoff: float = 0.0, margin: float = 20.0) -> float:
    """How long a lock must hold so that nobody takes it over while its owner still waits for an answer.

    timeout: seconds of one try; retries: tries after the first, made by the client library itself;
    backoff: the longest pause between two tries; margin: seconds for everything else.
    15 s × 3 + 2 × 5 s + 20 s = 75 s.
    """
    for name, value in (("timeout", timeout), ("retries", retries), ("backoff", backoff), ("margin", margin)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} is {value}; pass a number of zero or more")
    return timeout * (1 + retries) + backoff * retries + margin


async def install(conn: Connection) -> None:
    """Create the table if it is not there. Safe to run again, and by several processes at once."""
    indexes = ("idempotency_done_index", "idempotency_pending_index")
    await install_tables(conn, "idempotency_table", *indexes)


async def claim(
    source: Source,
    key: str,
    *,
    lock_seconds: Seconds,
    request: Any = None,
    now: datetime | None = None,
) -> Claim | Done:
    """Take the key, and commit. Returns Done when its effect has happened already.

    request: what the key stands for (strict JSON); the same key with another request is refused.
    now:     an aware datetime instead of the server's clock, for tests.
    Raises KeyBusy (try again later), KeyMismatch, ConnectionUnusable, NotInstalled, ValueError.
    """
    lock = lock_time(lock_seconds, "lock_seconds")
    values = {
        "key": short_text(key, "idempotency key"),
        "request_hash": _fingerprint(request),
        "now": aware(now),
    }
    async with transaction_on(source, TABLE) as conn:
        for _ in range(_CLAIM_TRIES):
            taken = await fetch_one(conn, "idempotency_claim", {**values, "lock_seconds": lock})
            if taken:
                return Claim(key, taken["lock_token"], taken["locked_until"])
            row = await fetch_one(conn, "idempotency_look", {"key": key, "now": values["now"]})
            if row:
                return _judge(key, row, values["request_hash"])
    raise KeyBusy(key)


async def done(source: Source, claim: Claim, result: Any, *, now: datetime | None = None) -> None:
    """Store the result (strict JSON). Inside an open transaction it becomes part of it, with your own writes.

    Raises ClaimLost when the lock is no longer ours: nothing is stored, and the job must come again.
    """
    text = json_text(result, "result")
    values = {"key": claim.key, "lock_token": claim.token, "result": text, "now": aware(now)}
    async with joined_transaction(source, TABLE) as conn:
        if await touched(conn, "idempotency_done", values) == 0:
            raise ClaimLost(claim.key)


async def release(source: Source, claim: Claim, *, now: datetime | None = None) -> bool:
    """End our lock now and commit, after an error, so that a retry can start at once.

    False: the lock is somebody else's by now, and was left alone.
    """
    values = {"key": claim.key, "lock_token": claim.token, "now": aware(now)}
    async with transaction_on(source, TABLE) as conn:
        return await touched(conn, "idempotency_release", values) == 1


async def run_once(
    source: Source,
    key: str,
    effect: Callable[[], Awaitable[Any]],
    *,
    lock_seconds: Seconds,
    request: Any = None,
) -> Outcome:
    """Claim, run the effect, store its result; or return the stored one.

    effect: an async function; the work of a plain one counts too, but it blocks the loop meanwhile.
    An effect that raises releases the key and the error goes on. Raises what `claim` and `done` raise.
    """
    function(effect, "effect")
    held = await claim(source, key, lock_seconds=lock_seconds, request=request)
    if isinstance(held, Done):
        return Outcome(held.result, ran=False)
    try:
        result = await outcome_of(effect)
        json_text(result, "result")
    except BaseException as error:
        await _release_quietly(source, held, error)
        raise
    await done(source, held, result)
    return Outcome(result, ran=True)


async def cleanup(source: Source, keep: timedelta, *, batch: int = 1000, now: datetime | None = None) -> int:
    """Delete keys done more than `keep` ago, in short transactions of `batch` rows; return how many.

    keep: longer than any job can come back: retries, and the replay of a dead letter weeks later. A key that
    is gone cannot stop a second effect. PENDING keys stay: see `abandoned`.
    """
    values = {"keep": seconds(keep, "keep"), "batch": whole(batch, "batch"), "now": aware(now)}
    total = 0
    async with connection(source) as conn:
        while True:
            async with transaction_on(conn, TABLE):
                deleted = await touched(conn, "idempotency_cleanup", values)
            total += deleted
            if deleted < batch:
                return total


async def abandoned(
    source: Source, older_than: timedelta, *, limit: int = 100, now: datetime | None = None
) -> list[str]:
    """Up to `limit` keys whose holder died and that nobody took over for `older_than`, the oldest first.

    Their effect may have happened or not: ask whoever carries it out, then run the job again. A number to
    alert on; it is zero as long as every job whose worker dies comes back.
    """
    gap = seconds(older_than, "older_than")
    values = {"older_than": gap, "batch": whole(limit, "limit"), "now": aware(now)}
    async with transaction_on(source, TABLE) as conn:
        return [row["key"] for row in await fetch_all(conn, "idempotency_abandoned", values)]


async def _release_quietly(source: Source, held: Claim, error: BaseException) -> None:
    """The effect's own error matters more than one of the release; the lock ends by itself later."""
    try:
        await release(source, held)
    except Exception as second:
        error.add_note(f"the key {held.key!r} could not be released ({second}); its lock ends by itself")


def _judge(key: str, row: dict[str, Any], request_hash: object) -> Done:
    if row["request_hash"] != request_hash:
        raise KeyMismatch(key)
    if row["status"] == "DONE":
        return Done(key, json.loads(row["result"]))
    raise KeyBusy(key, row["retry_after"])


def _fingerprint(request: Any) -> str:
    """A hash of the request that does not depend on the order of its keys."""
    canonical = json.dumps(json.loads(json_text(request, "request")), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
