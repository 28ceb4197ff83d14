"""A TCP proxy in front of a Redis that delays what it carries."""

import contextlib
import random

from qlab.classroom.cable import Cable


@contextlib.asynccontextmanager
async def slow_proxy(url, low, high, rng=random):
    """Yield the URL of a proxy that adds between `low` and `high` seconds to each answer."""
    async with Cable(url, delay=lambda: rng.uniform(low, high)) as cable:
        yield cable.url
