"""Framing of the Redis protocol, on bytes: one command, or MULTI … EXEC, is one effect."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import hiredis

from qlab.testing.explorer.errors import Unsupported
from qlab.testing.explorer.wire import Piece, WireError

_SILENT = {
    *("HELLO", "CLIENT", "AUTH", "SELECT", "PING", "COMMAND", "WATCH", "UNWATCH", "ECHO", "INFO", "QUIT"),
    "SCRIPT",
}
_BLOCKING = {
    *(
        "BLPOP",
        "BRPOP",
        "BLMOVE",
        "BRPOPLPUSH",
        "BZPOPMIN",
        "BZPOPMAX",
        "BLMPOP",
        "BZMPOP",
        "WAIT",
        "WAITAOF",
    ),
    *("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC"),
}
_ADMIN = {
    *("SHUTDOWN", "CONFIG", "DEBUG", "REPLICAOF", "SLAVEOF", "MODULE", "ACL", "SAVE", "BGSAVE"),
    *("BGREWRITEAOF", "FAILOVER", "CLUSTER", "MIGRATE"),
}
_EVAL = {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"}


class RedisFront:
    """Bytes from a client of Redis. `scripts` names known scripts by SHA-1; `loaded` are those that the
    server has by now: an EVALSHA of another one only gets NOSCRIPT, so it is no effect. `load` is called with
    the text of each script that comes with an EVAL, before that is an effect: so it is one effect to run the
    script, whoever else runs it at the same time and whichever comes first."""

    def __init__(
        self, scripts: Mapping[str, str], loaded: set[str], load: Callable[[bytes], object] = len
    ) -> None:
        self._load = load
        self._reader = hiredis.Reader()
        self._scripts, self._loaded = scripts, loaded
        self._batch: list[list[bytes]] | None = None

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are complete now. Raises WireError, and Unsupported for what would be missed."""
        try:
            self._reader.feed(data)
            while (words := self._reader.gets()) is not False:
                if piece := self._command(_checked(words)):
                    yield piece
        except hiredis.HiredisError as error:
            raise WireError(f"this is not the Redis protocol: {error}") from None

    def _command(self, words: list[bytes]) -> Piece | None:
        name = _text(words[0]).upper()
        _refuse(name, words)
        if name == "MULTI":
            self._batch = [words]
            return None
        if self._batch is None:
            return self._single(name, words)
        self._batch.append(words)
        if name not in ("EXEC", "DISCARD"):
            return None
        batch, self._batch = self._batch, None
        raw = b"".join(map(_pack, batch))
        inside = [self._short(_text(one[0]).upper(), one) for one in batch[1:-1]]
        label = None if name == "DISCARD" else "MULTI " + ", ".join(_label(one) for one in batch[1:-1])
        return Piece(raw, label, "MULTI " + ", ".join(inside), "R" * len(batch))

    def _single(self, name: str, words: list[bytes]) -> Piece:
        raw = _pack(words)
        silent = name in _SILENT or _is_handshake(name, words)
        if name in _EVAL and len(words) > 1:
            sha = _sha(name, words[1])
            silent = name.startswith("EVALSHA") and sha not in self._loaded
            if not name.startswith("EVALSHA") and sha not in self._loaded:
                self._load(words[1])
                self._loaded.add(sha)
        elif name == "SCRIPT" and len(words) > 2 and words[1].upper() == b"LOAD":
            self._loaded.add(hashlib.sha1(words[2]).hexdigest())
        return Piece(raw, None if silent else _label(words), self._short(name, words), "R")

    def _short(self, name: str, words: list[bytes]) -> str:
        if name in _EVAL and len(words) > 1:
            known = self._scripts.get(_sha(name, words[1]))
            return f"EVAL {known or (_text(words[3]) if len(words) > 3 else '')}".rstrip()
        return f"{name} {_text(words[1])}" if len(words) > 1 else name


def redis_result(reply: Any) -> str:
    """What a reply says in a trace. Of texts only that there is one: they may be random tokens."""
    if isinstance(reply, Exception):
        return f"ERROR {reply}"
    if isinstance(reply, str):
        return reply  # a status such as OK
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return "a text" if reply != b"OK" else "OK"
    return f"{len(reply)} items" if isinstance(reply, list | dict) else str(reply)


def _checked(words: object) -> list[bytes]:
    if isinstance(words, list) and words and all(isinstance(word, bytes) for word in words):
        return words
    raise WireError("a command of Redis is a list of texts")


def _pack(words: list[bytes]) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


def _refuse(name: str, words: list[bytes]) -> None:
    options = {_text(word).upper() for word in words[1:]}
    if name in _BLOCKING or (name in ("XREAD", "XREADGROUP") and "BLOCK" in options):
        raise Unsupported(f"{name} waits at the server, out of reach of the fault explorer: poll instead")
    if name in _ADMIN:
        raise Unsupported(f"{name} changes or stops the lab's Redis itself; leave it out of what is explored")
    if name == "TIME":
        raise Unsupported("TIME reads the server's real clock, which a schedule cannot move: use world.clock")
    if name == "CLIENT" and options & {"REPLY", "TRACKING"}:
        raise Unsupported("CLIENT REPLY and CLIENT TRACKING are out of reach of the fault explorer")


def _is_handshake(name: str, words: list[bytes]) -> bool:
    """qlab's own check of its key schema, when a queue connects."""
    return name in ("HSETNX", "HGET") and words[1].endswith(b":meta") and words[2:3] == [b"schema"]


def _sha(name: str, word: bytes) -> str:
    return _text(word).lower() if name.startswith("EVALSHA") else hashlib.sha1(word).hexdigest()


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def _label(words: list[bytes]) -> str:
    """Name and keys: arguments may hold random tokens, which do not make a handler another one."""
    name = _text(words[0]).upper()
    if name in _EVAL and len(words) > 3:
        return f"EVAL {_sha(name, words[1])} {_text(words[3])}"
    return " ".join(_text(word) for word in words[:2])
