"""Keys of the patterns: `qlab:bucket:emails:tenant-7`."""

import inspect
import re

from qlab.keys import Keys

_PART = re.compile(r"[^\s{}:*?\[\]\\]{1,200}")


def prefix_of(given: str | None) -> str:
    """The prefix as for a Queue: the given one, QLAB_PREFIX, or "qlab". Raises ValueError for a bad one."""
    return Keys("any", given).prefix


def check_client(redis: object) -> None:
    """Raise TypeError for what is no asyncio client: its commands would be carried out, then fail."""
    if not inspect.iscoroutinefunction(getattr(redis, "execute_command", None)):
        kind = f"{type(redis).__module__}.{type(redis).__name__}"
        raise TypeError(f"pass a client of redis.asyncio, such as redis.asyncio.Redis, not {kind}")


def check_name(what: str, name: object) -> str:
    """Return `name` if it can be a part of a key. Raises ValueError with the rule that it breaks."""
    if (
        not isinstance(name, str)
        or not _PART.fullmatch(name)
        or name.encode("utf-8", "replace").decode() != name
    ):
        raise ValueError(
            f"{what} {name!r:.80}: use 1 to 200 characters without spaces, ':', braces or glob signs"
        )
    return name
