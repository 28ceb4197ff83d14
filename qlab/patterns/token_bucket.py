"""A token bucket for each tenant: at most `capacity` at once, `rate` a second in the long run.

    bucket = TokenBucket(redis, "emails", capacity=10, rate=10 / 60)       # 10 at once, 10 a minute

    async def handler(job):
        decision = await bucket.take(job.data["tenant"])
        if not decision.granted:
            raise DelayedError(decision.retry_after)       # the same job later; no attempt is counted

One Lua script reads, refills, takes and stores, so any number of processes share a bucket, and all of them by
the server's clock. A bucket's key ends when the bucket would be full anyway: idle tenants cost nothing, and
the end of a key gives nobody a token. Each refusal costs a trip of the job through the queue; a tenant with
very many jobs is better served by a list of its own (see docs/patterns.md).
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from qlab.patterns.names import check_client, check_name, prefix_of
from qlab.patterns.scripts import call

__all__ = ["Decision", "TokenBucket"]

MOST_AT_ONCE = 50
"""Calls of one TokenBucket on their way; more wait, since a client refuses beyond 100 connections."""


@dataclass(frozen=True)
class Decision:
    """`tokens` are left in the bucket. `retry_after`: seconds until the same call can succeed, 0 if it did.

    It is infinite when the call can never succeed: more tokens than the capacity, or a rate of 0.
    """

    granted: bool
    tokens: float
    retry_after: float

    @property
    def never(self) -> bool:
        """Waiting cannot help."""
        return math.isinf(self.retry_after)


class TokenBucket:
    """Buckets called `name`, one for each tenant; they are full at first.

    redis:    an asyncio client.
    capacity: tokens that fit in, 1 or more; rate: tokens a second (0: what is in is all there ever is, and
              the keys stay for ever).
    prefix:   as for a Queue. clock: seconds since the epoch, in place of the server's clock, for tests.
    Raises ValueError for options that make no sense, TypeError for a client without asyncio.
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        *,
        capacity: float,
        rate: float,
        prefix: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.capacity = _number(capacity, "capacity", least=1)
        self.rate = _number(rate, "rate", least=0)
        if 0 < self.rate < 1e-6:
            raise ValueError(
                f"rate is {rate}, a token in more than 11 days; use 0 for a bucket never refilled"
            )
        check_client(redis)
        self._redis, self._clock = redis, clock
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._base = f"{prefix_of(prefix)}:bucket:{check_name('bucket name', name)}:"

    def key(self, tenant: str) -> str:
        """The key of one tenant's bucket. Raises ValueError for a name that cannot be one."""
        return self._base + check_name("tenant", tenant)

    async def take(self, tenant: str, n: float = 1) -> Decision:
        """Take `n` tokens, all or none. Raises ValueError for a bad tenant or n, RedisUnavailable.

        After RedisUnavailable the tokens may be taken; nobody gives them back.
        """
        now = "" if self._clock is None else repr(self._clock() * 1000)
        wanted = _number(n, "n", least=1e-3)
        key = self.key(tenant)
        async with self._turns:
            granted, tokens, wait = await call(
                self._redis, "token_bucket", {"bucket": key},
                now=now, capacity=self.capacity, rate=self.rate, n=wanted,
            )  # fmt: skip
        return Decision(bool(granted), float(tokens), math.inf if wait < 0 else wait / 1000)


def _number(value: object, what: str, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e9:
        raise ValueError(f"{what} must be a number from {least:g} to 1e9, not {value!r}")
    return float(value)
