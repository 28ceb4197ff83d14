"""The token bucket: never more than it holds, never less than it owes, by the server's clock."""

import asyncio
import math
import time
from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from qlab.errors import RedisUnavailable
from qlab.patterns.scripts import call, script
from qlab.patterns.token_bucket import Decision, TokenBucket


class Clock:
    now = 1_760_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def make(redis: Redis, prefix: str) -> Callable[..., TokenBucket]:
    def bucket(**options):
        return TokenBucket(redis, "b", **{"capacity": 3, "rate": 1 / 15, "prefix": prefix, **options})

    return bucket


async def test_h26_the_end_of_the_key_never_refills_it(make) -> None:
    clock, seen = Clock(), []
    bucket, start = make(clock=clock), clock.now
    for at in (0, 0, 0, 0, 7, 14.9, 15.1, 15.2, 31, 31, 77, 77, 77, 77):
        clock.now = start + at
        seen.append((at, (await bucket.take("t")).granted))
    granted = [(at, n) for at, n in seen if n]
    assert granted == [(0, True)] * 3 + [(15.1, True), (31, True)] + [(77, True)] * 3


async def test_h26_in_real_time_by_the_servers_clock(make, redis: Redis) -> None:
    """The same in a tenth of the time: a wait of `retry_after` is enough, and little less is not."""
    bucket = make(capacity=2, rate=1 / 0.3)
    assert [(await bucket.take("t")).granted for _ in range(2)] == [True, True]
    refused = await bucket.take("t")
    assert not refused.granted
    assert 0 < refused.retry_after <= 0.3
    began = await server_time(redis)
    while not (await bucket.take("t")).granted:
        await asyncio.sleep(0.005)
    waited = await server_time(redis) - began
    assert waited >= refused.retry_after - 0.1


async def server_time(redis: Redis) -> float:
    seconds, micros = await redis.time()
    return seconds + micros / 1e6


async def test_h26_keys_end_when_the_bucket_is_full_again(make, redis: Redis) -> None:
    bucket = make()
    await asyncio.gather(*(bucket.take(f"t-{n}") for n in range(1000)))
    await bucket.take("t-0", 2)
    for tenant, full_after in (("t-0", 45_000), ("t-1", 15_000)):
        left = await redis.pttl(bucket.key(tenant))
        assert full_after - 30_000 < left <= full_after + 1000  # a busy machine may have let time pass
    quick = make(rate=100)
    await quick.take("gone")
    async with asyncio.timeout(30):
        while await redis.exists(quick.key("gone")):
            await asyncio.sleep(0.02)


async def test_h26_never_refilled_and_never_possible(make, redis: Redis) -> None:
    empty = make(rate=0)
    assert [(await empty.take("t")).granted for _ in range(4)] == [True, True, True, False]
    assert await empty.take("t") == Decision(False, 0.0, math.inf)
    assert await redis.ttl(empty.key("t")) == -1
    five = await make().take("u", 5)
    assert (five.granted, five.never, five.tokens) == (False, True, 3.0)


async def test_h26_fifty_at_once_on_a_bucket_of_ten(make) -> None:
    bucket = make(capacity=10, rate=1e-6)
    decisions = await asyncio.gather(*(bucket.take("t") for _ in range(50)))
    assert sum(decision.granted for decision in decisions) == 10


async def test_retry_after_is_exact(make) -> None:
    clock = Clock()
    bucket = make(clock=clock)
    await bucket.take("t", 3)
    clock.now += 4
    refused = await bucket.take("t", 2)
    assert refused.retry_after == pytest.approx(26, abs=0.002)
    clock.now += refused.retry_after - 0.01
    assert not (await bucket.take("t", 2)).granted
    clock.now += 0.011
    assert (await bucket.take("t", 2)).granted


async def test_h10_clocks_of_the_callers_do_not_matter(make, monkeypatch) -> None:
    real, skew = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + skew)
    one, two, granted = make(capacity=5, rate=1e-6), make(capacity=5, rate=1e-6), 0
    for n in range(20):
        skew = (300.0, -300.0)[n % 2]
        granted += (await (one, two)[n % 2].take("t")).granted
    assert granted == 5


async def test_after_the_clock_went_back_retry_after_is_still_right(make) -> None:
    """Tokens come again when the clock is where it was, so whoever waits has that to wait for too."""
    clock = Clock()
    bucket = make(clock=clock)
    for _ in range(3):
        assert (await bucket.take("a")).granted
    clock.now -= 100
    refused = await bucket.take("a")
    assert (refused.granted, refused.retry_after) == (False, pytest.approx(115, abs=0.01))
    clock.now += refused.retry_after - 0.1
    assert not (await bucket.take("a")).granted
    clock.now += 0.11
    assert (await bucket.take("a")).granted


async def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing(make) -> None:
    clock = Clock()
    bucket = make(clock=clock)
    await bucket.take("t", 2)
    clock.now -= 3600
    assert (await bucket.take("t")).tokens == 0.0
    clock.now += 3600 + 15
    assert (await bucket.take("t")).granted
    assert not (await bucket.take("t")).granted


async def test_tenants_do_not_touch_each_other_and_limits_can_change(make) -> None:
    clock = Clock()
    small = make(clock=clock)
    await small.take("a", 3)
    assert (await small.take("b")).granted
    clock.now += 30
    assert (await make(clock=clock, capacity=1).take("a")).tokens == 0.0  # cut to the new capacity
    clock.now += 1
    assert (await make(clock=clock, capacity=100, rate=10).take("a", 10)).granted


async def test_script_cache_lost(make, redis: Redis) -> None:
    bucket = make()
    await redis.script_flush()
    assert (await bucket.take("t")).granted


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capacity": "3"}, "capacity"),
        ({"capacity": math.nan}, "capacity"),
        ({"rate": -1}, "rate"),
        ({"rate": math.inf}, "rate"),
        ({"rate": 1e-9}, "11 days"),
        ({"prefix": "a b"}, "prefix"),
    ],
)
async def test_bad_options_are_refused(make, bad: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make(**bad)


async def test_bad_calls_are_refused(make, redis: Redis) -> None:
    bucket = make()
    for tenant in ("", "a b", "a:b", "t" * 201, "\ud800", None, 7):
        with pytest.raises(ValueError, match="tenant"):
            await bucket.take(tenant)
    for n in (0, -1, math.nan, "1"):
        with pytest.raises(ValueError, match="n must be"):
            await bucket.take("t", n)
    with pytest.raises(TypeError, match="token_bucket takes"):
        await call(redis, "token_bucket", {"bucket": "b"}, now="")
    with pytest.raises(FileNotFoundError):
        script("none")


async def test_redis_away_says_so() -> None:
    async with Redis(host="127.0.0.1", port=1, retry=None) as away:
        with pytest.raises(RedisUnavailable, match="cannot reach Redis"):
            await TokenBucket(away, "b", capacity=1, rate=1).take("t")
