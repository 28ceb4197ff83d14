"""Loads the Lua scripts and calls them by name.

A file in `lua/` is either a *transition* (a local function) or an *entry script* composed of transitions.
The header comments are read here, so that they cannot drift from the code:

- `KEYS a b` names the keys a file touches; in Lua each is a local of that name. An entry script gets the
  keys of all its parts. Every script also has those of `prelude.lua`.
- `ARGV a b` names the fixed arguments of an entry script; a call must give exactly these, by name. What
  varies in length follows them.
- A script of which a part calls `enter(base)` may work on several queues: it makes those locals name the keys
  of the queue whose keys begin with `base`.
- `USES t u` composes an entry script of transitions, in this order; `NEEDS t` says that a transition calls
  others, which the entry script then has to list before it.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from qlab.keys import SUFFIXES, Keys


@dataclass(frozen=True)
class _File:
    source: str
    keys: tuple[str, ...]
    argv: tuple[str, ...] | None
    uses: tuple[str, ...]
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """One entry script, ready to be called."""

    name: str
    keys: tuple[str, ...]
    argv: tuple[str, ...]
    source: str
    sha: str

    def arguments(self, keys: Keys, fixed: dict[str, Any], rest: list[Any]) -> list[Any]:
        """`numkeys key ... arg ...` for EVALSHA. Raises TypeError when the header says otherwise."""
        if tuple(fixed) != self.argv:
            raise TypeError(f"script {self.name} takes {self.argv}, not {tuple(fixed)}")
        return [len(self.keys), *keys.full(self.keys), *fixed.values(), *rest]


@cache
def _read(name: str) -> _File:
    source = (files("qlab") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    header = {"KEYS": "", "USES": "", "NEEDS": ""}
    argv = None
    for line in source.splitlines():
        if match := re.fullmatch(r"-- (KEYS|ARGV|USES|NEEDS) (.+)", line):
            if match[1] == "ARGV":
                argv = tuple(match[2].split())
            else:
                header[match[1]] = match[2]
    parts = {key: tuple(text.split()) for key, text in header.items()}
    return _File(source, parts["KEYS"], argv, parts["USES"], parts["NEEDS"])


@cache
def script(name: str) -> Script:
    """Compose the entry script `name`. Raises ValueError when the headers do not fit together."""
    entry = _read(name)
    if entry.argv is None:
        raise ValueError(f"lua/{name}.lua has no ARGV line: it is a transition, not an entry script")
    parts = [_read("prelude"), *[_read(used) for used in entry.uses], entry]
    for position, used in enumerate(entry.uses):
        missing = [need for need in _read(used).needs if need not in entry.uses[:position]]
        if missing:
            raise ValueError(f"lua/{name}.lua must list {missing} before {used} in USES")
    keys = tuple(dict.fromkeys(key for part in parts for key in part.keys))
    lines = [f"local {key} = KEYS[{n}]" for n, key in enumerate(keys, 1)]
    lines += [f"local {arg} = ARGV[{n}]" for n, arg in enumerate(entry.argv, 1)]
    if any("enter(" in part.source for part in parts):
        lines += [
            "local function enter(base)",
            *[f"  {key} = base .. '{SUFFIXES.get(key, key)}'" for key in keys],
            "end",
        ]
    lines += [part.source for part in parts]
    source = "\n".join(lines)
    return Script(name, keys, entry.argv, source, hashlib.sha1(source.encode()).hexdigest())


async def call(client: Any, keys: Keys, name: str, rest: list[Any] | None = None, **fixed: Any) -> Any:
    """Run the entry script `name` on `client`; a script cache that was lost is filled again."""
    one = script(name)
    arguments = one.arguments(keys, fixed, rest or [])
    try:
        return await client.execute_command("EVALSHA", one.sha, *arguments)
    except NoScriptError:
        return await client.execute_command("EVAL", one.source, *arguments)
