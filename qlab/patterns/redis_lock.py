"""A lock in Redis: SET NX PX to take it, compare-and-delete to give it back, a fencing number to be safe.

    lock = RedisLock(redis, "nightly-cleanup", ttl=60)
    held = await lock.acquire()
    if held: ...  await lock.release(held)

It makes double work rare. It does not make it impossible: a holder that is paused for longer than `ttl`
(garbage collection, a stopped process, a network that is cut) wakes up and goes on, not knowing that another
has taken the lock. No check before the write helps, since the pause can come after the check. What helps is
that the *resource* refuses: each holding has a number, `fence`, higher than all before, which goes along with
every write; the resource keeps the highest that it has seen and refuses lower ones. In SQL:

    UPDATE report SET ..., fence = %(fence)s WHERE id = %(id)s AND fence <= %(fence)s      -- 0 rows: too late

A resource that can do this, or an effect that is idempotent, gives the correctness; the lock saves work.
(M. Kleppmann, "How to do distributed locking", 2016; S. Sanfilippo, "Is Redlock safe?", 2016.)
Numbers rise only as long as Redis keeps its data: after a restart that lost it they begin again.
"""

import secrets
from dataclasses import dataclass

from redis.asyncio import Redis

from qlab.patterns.names import check_client, check_name, prefix_of
from qlab.patterns.scripts import call
from qlab.retry import Seconds, milliseconds

__all__ = ["Held", "RedisLock"]


@dataclass(frozen=True)
class Held:
    """One holding of the lock. `token` opens it; `fence` is higher than that of every earlier holding."""

    token: str
    fence: int


class RedisLock:
    """A lock called `name`, which ends by itself `ttl` seconds after it was taken.

    redis: an asyncio client; prefix: as for a Queue. Raises ValueError for a bad name or ttl,
    TypeError for a client without asyncio.
    """

    def __init__(self, redis: Redis, name: str, *, ttl: Seconds, prefix: str | None = None) -> None:
        check_client(redis)
        self._redis = redis
        self._ttl = milliseconds(ttl, "ttl")
        if self._ttl < 1:
            raise ValueError("ttl must be more than 0 seconds")
        tag = "{" + check_name("lock name", name) + "}"  # one slot of a cluster for both keys
        self.key, self.fence_key = f"{prefix_of(prefix)}:lock:{tag}", f"{prefix_of(prefix)}:fence:{tag}"

    async def acquire(self) -> Held | None:
        """Take the lock; None when somebody has it. Raises RedisUnavailable, then perhaps it is taken."""
        token = secrets.token_hex(16)
        keys = {"lock": self.key, "fence": self.fence_key}
        fence = int(await call(self._redis, "lock_acquire", keys, token=token, ttl=self._ttl))
        return Held(token, fence) if fence else None

    async def release(self, held: Held) -> bool:
        """Give it back. False: it had run out before, and whoever has it now keeps it."""
        return bool(await call(self._redis, "lock_release", {"lock": self.key}, token=held.token))
