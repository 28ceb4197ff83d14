"""What the service reads from its environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

QUEUE = "orders"


class SettingsError(Exception):
    """A setting is missing or makes no sense; the text says which and what to write."""


@dataclass(frozen=True)
class Settings:
    """Redis is QLAB_REDIS_URL, which qlab reads by itself. Durations are seconds."""

    pg_dsn: str
    """QLAB_PG_DSN."""
    work: float
    """ORDERS_WORK: how long a receipt takes to make."""
    lock: float
    """ORDERS_LOCK: how long a job is lent to a worker; a job of a dead worker waits about that long."""
    concurrency: int
    """ORDERS_CONCURRENCY: jobs a worker runs at a time. Each holds one database connection at most."""

    @classmethod
    def read(cls) -> Self:
        """The settings of this process. Raises SettingsError."""
        dsn = os.environ.get("QLAB_PG_DSN")
        if not dsn:
            raise SettingsError("QLAB_PG_DSN is not set: name a PostgreSQL, or run python -m examples.orders")
        return cls(
            pg_dsn=dsn,
            work=_number("ORDERS_WORK", 2.0, least=0.0),
            lock=_number("ORDERS_LOCK", 30.0, least=0.1),
            concurrency=int(_number("ORDERS_CONCURRENCY", 4.0, least=1.0)),
        )


def _number(name: str, default: float, *, least: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not least <= value <= 1e6:  # not a number fails here as well
        raise SettingsError(f"{name} is {text!r}: write a number of at least {least:g}")
    return value
