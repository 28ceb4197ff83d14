"""The worker of the field cases, copied to a folder of its own and run by `python -m qlab worker`.

Everything is set by the environment. Each start is written to a ledger with the server's clock, before
anything else happens.
"""

import asyncio
import os
import time

real_time = time.time
skew = float(os.environ.get("SKEW", "0"))
time.time = lambda: real_time() + skew

import redis as redis_sync  # noqa: E402 - this process' clock is wrong before anything else is imported

from qlab import Limiter, LockLost, RateLimitError, Worker  # noqa: E402

NAME, LEDGER = os.environ["NAME"], os.environ["LEDGER"]
ledger = redis_sync.Redis.from_url(os.environ.get("LEDGER_URL") or os.environ["QLAB_REDIS_URL"])


def write(word: str, job: object, more: str = "") -> None:
    seconds, micros = ledger.time()
    ledger.rpush(LEDGER, f"{word} {NAME} {job.id} {seconds * 1000 + micros // 1000} {more}".strip())


def spin(duration: float) -> None:
    """Pure Python that never lets go by itself."""
    end, n = time.monotonic() + duration, 0
    while time.monotonic() < end:
        n += 1


async def handler(job):
    write("start", job)
    if job.name == "block":
        time.sleep(job.data)  # noqa: ASYNC251 - the mistake that is shown
    elif job.name == "spin":
        spin(job.data)
    elif job.name == "stubborn":
        await stubborn(job.data)
    elif job.name == "fail-once" and job.attempts_made == 0:
        raise ValueError(f"from {NAME}")
    elif job.name == "limit-once" and job.claim == 1:
        await limit(job)
    elif job.name == "slow-finally":
        await slow_finally(job)
    elif job.data:
        await asyncio.sleep(job.data)
    if job.name == "raise":
        raise ValueError(f"from {NAME}")
    if job.name == "write":
        await try_to_write(job)
    return NAME


async def stubborn(duration):
    end = time.monotonic() + duration
    while time.monotonic() < end:
        try:
            await asyncio.sleep(duration)
        except asyncio.CancelledError:
            print("cancellation ignored", flush=True)


async def limit(job):
    await worker_queue().rate_limit(job.data)
    raise RateLimitError


def worker_queue():
    from qlab import Queue

    return Queue("q")


async def slow_finally(job):
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(job.data)
        write("cleaned", job)


async def try_to_write(job):
    refused = 0
    for note in (job.update_progress, job.log, job.update_data):
        try:
            await note(f"from {NAME}")
        except LockLost:
            write("refused", job)
            refused += 1
    assert refused in (0, 3)


def plain(job):
    """In a thread; a short job is a coroutine, which runs on the loop."""
    write("start", job)
    if job.name == "short":
        return asyncio.sleep(0, NAME)
    if job.name == "spin":
        spin(job.data)
    else:
        time.sleep(job.data or 0)
    return NAME


def number(name, default):
    return float(os.environ.get(name, default))


options = {
    "name": NAME,
    "concurrency": int(number("CONCURRENCY", 1)),
    "lock_duration": number("LOCK", 1.0),
    "lock_renew_time": number("RENEW", 0.4),
    "stalled_interval": number("CHECK", 0.5),
    "max_stalled_count": int(number("MAX_STALLED", 2)),
    "limiter": Limiter(int(number("LIMIT", 0)), 1.0) if number("LIMIT", 0) else None,
}


def worker():
    return Worker("q", handler, **options)


def plain_worker():
    return Worker("q", plain, **options)
