"""One Lua file for each atomic step, named KEYS and ARGV in its header, as in `qlab.scripts`.

These scripts touch keys of their own and know nothing of a queue, so they are not composed of its parts.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from qlab.errors import RedisUnavailable


@dataclass(frozen=True)
class Script:
    """The text with its locals, and what a call must give."""

    name: str
    keys: tuple[str, ...]
    argv: tuple[str, ...]
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """Load `lua/<name>.lua`. Raises ValueError when its header does not name its keys and arguments."""
    text = (files("qlab.patterns") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    header = {kind: tuple(names.split()) for kind, names in re.findall(r"(?m)^-- (KEYS|ARGV) (.+)$", text)}
    if not text.startswith(f"-- {name}: ") or set(header) != {"KEYS", "ARGV"}:
        raise ValueError(f"lua/{name}.lua: the header must have '-- {name}: ...', '-- KEYS' and '-- ARGV'")
    lines = [f"local {key} = KEYS[{n}]" for n, key in enumerate(header["KEYS"], 1)]
    lines += [f"local {arg} = ARGV[{n}]" for n, arg in enumerate(header["ARGV"], 1)]
    source = "\n".join([*lines, text])
    return Script(name, header["KEYS"], header["ARGV"], source, hashlib.sha1(source.encode()).hexdigest())


async def call(client: Redis, name: str, keys: dict[str, str], rest: Sequence[Any] = (), **argv: Any) -> Any:
    """Run the script. Raises TypeError when the call differs from the header, RedisUnavailable."""
    one = script(name)
    if tuple(keys) != one.keys or tuple(argv) != one.argv:
        raise TypeError(f"script {name} takes {one.keys} and {one.argv}, not {tuple(keys)} and {tuple(argv)}")
    words = [len(keys), *keys.values(), *argv.values(), *rest]
    with explained():
        try:
            return await client.execute_command("EVALSHA", one.sha, *words)  # type: ignore[no-untyped-call]
        except NoScriptError:
            return await client.execute_command("EVAL", one.source, *words)  # type: ignore[no-untyped-call]


@contextmanager
def explained() -> Iterator[None]:
    """Errors of the client as RedisUnavailable, in plain words."""
    try:
        yield
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise RedisUnavailable(f"cannot reach Redis ({type(error).__name__}: {error})") from error
    except ResponseError as error:
        raise RedisUnavailable(f"Redis refused a command: {error}") from error
