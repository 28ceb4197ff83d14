"""Wait for a condition with a limit."""

import time
from collections.abc import Callable
from pathlib import Path

from .errors import ServerError
from .lifetime import Tied

START_LIMIT = 60.0  # seconds; a start takes well under one, a loaded machine much longer


def wait_until_ready(server: Tied, ready: Callable[[], bool], what: str, log: Path) -> None:
    """Return when `ready()`; `ServerError` with the end of the log when the server ends or takes too long."""
    limit = time.monotonic() + START_LIMIT
    while not ready():
        if server.ended or time.monotonic() > limit:
            reason = "ended at once" if server.ended else f"was not ready after {START_LIMIT:.0f} s"
            server.stop()
            raise ServerError(f"{what} {reason}: {last_words(log)}")
        time.sleep(0.005)


def last_words(log: Path, size: int = 300) -> str:
    """The end of a log, on one line."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return " ".join(text.split())[-size:] or "it wrote nothing"
