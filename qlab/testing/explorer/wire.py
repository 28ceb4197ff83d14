"""Framing only, on bytes: where does one effect end, and when has the server answered it?

PostgreSQL (protocol 3): an effect is what goes up to Sync or Flush, or one simple query. Redis: one command,
or MULTI … EXEC, as the server does nothing before EXEC. Nothing here opens a socket.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from qlab.testing.explorer.errors import Unsupported

MOST = 64 << 20
"""Bytes of one message; more is not taken for this protocol."""

_SILENT = re.compile(
    r"(BEGIN|START TRANSACTION|SET|RESET|SHOW|DEALLOCATE|DISCARD|SAVEPOINT|RELEASE|ROLLBACK TO"
    r"|SELECT (pg_catalog\.)?set_config)\b",
    re.IGNORECASE,
)
_REAL_TIME = re.compile(
    r"\b(current_timestamp|current_time|current_date|localtimestamp|localtime|timeofday)\b", re.I
)
_REFUSED = re.compile(r"(COPY|LISTEN|UNLISTEN|VACUUM)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:INTO|FROM|UPDATE|TABLE)\s+(?:ONLY\s+)?([\w.\"]+)", re.IGNORECASE)
_FUNCTION = re.compile(r"([\w.]+)\s*\(")
_STRINGS = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)

STARTUP, CANCEL, TLS, GSS = 196608, 80877102, 80877103, 80877104


class WireError(ValueError):
    """These bytes are not this protocol."""


@dataclass(slots=True)
class Piece:
    """One thing that a client asked for."""

    raw: bytes
    """To be forwarded as it is."""
    label: str | None
    """All of it, for comparing two runs; None when it changes nothing, so that no choice is offered."""
    short: str
    """For people: verb and table, or command and key."""
    owed: str
    """What the server owes until it has answered, a letter each."""
    end: bool = False
    """The client says goodbye."""


class Message(NamedTuple):
    """A message from PostgreSQL."""

    kind: bytes
    body: bytes
    raw: bytes


def short_sql(sql: str) -> str:
    """Verb and table of a statement: "INSERT processed_job", "SELECT pg_advisory_lock", "COMMIT"."""
    words = sql.split(None, 1)
    if not words:
        return ""
    found = _TABLE.search(sql) or _FUNCTION.search(words[-1])
    table = found[1].strip('"') if found else ""
    return f"{words[0].upper()} {table}".strip()


def clean_sql(sql: bytes) -> str:
    """Without comments and with single spaces; text constants are kept."""
    text = _STRINGS.sub(lambda found: found[0] if found[0][0] == "'" else " ", sql.decode("utf-8", "replace"))
    return " ".join(text.split()).rstrip("; ")


def check_sql(sql: str) -> None:
    """Raise Unsupported for a statement that the explorer would miss."""
    if found := _REFUSED.match(sql):
        raise Unsupported(
            f"{found[1].upper()} is out of reach of the fault explorer; leave it out: {sql:.60}"
        )
    if found := _REAL_TIME.search(_STRINGS.sub("''", sql)):
        raise Unsupported(
            f"{found[1].upper()} reads the real clock, which a schedule cannot move; write now()"
        )


class PgFront:
    """Bytes from a client of PostgreSQL, in any portions."""

    def __init__(self) -> None:
        self._buffer = b""
        self._started = False
        self._part = b""
        self._owed = ""
        self._texts: list[str] = []
        self._named: dict[bytes, str] = {}

    def startup(self, data: bytes) -> tuple[int, bytes] | None:
        """The first packet, once it is complete: its code (STARTUP, CANCEL, TLS, GSS) and all of it."""
        self._buffer += data
        if len(self._buffer) < 8:
            return None
        size, code = struct.unpack("!II", self._buffer[:8])
        if not 8 <= size <= 10_000:
            raise WireError("this is no start of a PostgreSQL session")
        if len(self._buffer) < size:
            return None
        packet, self._buffer = self._buffer[:size], self._buffer[size:]
        return code, packet

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are complete now. Raises WireError, and Unsupported for what would be missed."""
        for kind, body, raw in self._split(data):
            if kind == b"p":  # an answer to the server's question who we are
                yield Piece(raw, None, "", "")
                continue
            self._part += raw
            self._note(kind, body)
            if kind in (b"Q", b"S", b"H", b"X", b"F"):
                yield self._piece(kind)

    def _split(self, data: bytes) -> Iterator[Message]:
        self._buffer += data
        while (message := _next_message(self._buffer)) is not None:
            self._buffer = self._buffer[len(message.raw) :]
            yield message

    def _note(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self._texts.append(clean_sql(body.split(b"\0")[0]))
            self._owed = "Z"
        elif kind == b"P":
            name, sql, *_ = [*body.split(b"\0", 2), b""]
            self._named[name] = clean_sql(sql)
            self._owed += "1"
        elif kind == b"B":
            _, name, *_ = [*body.split(b"\0", 2), b""]
            self._texts.append(self._named.get(name, "?"))
            self._owed += "2"
        elif kind in (b"D", b"C", b"E"):
            self._owed += {b"D": "D", b"C": "3", b"E": "E"}[kind]
        elif kind == b"F":
            raise Unsupported("a function call of the old protocol is out of reach of the fault explorer")

    def _piece(self, kind: bytes) -> Piece:
        texts = [text for text in self._texts if text]
        for text in texts:
            check_sql(text)
        loud = [text for text in texts if not _SILENT.match(text)]
        owed = {b"S": self._owed + "Z", b"H": self._owed, b"Q": "Z"}.get(kind, "")
        piece = Piece(
            self._part,
            "; ".join(texts) if loud else None,
            " + ".join(dict.fromkeys(map(short_sql, loud))),
            owed,
            end=kind == b"X",
        )
        self._part, self._texts, self._owed = b"", [], ""
        return piece


def _next_message(buffer: bytes) -> Message | None:
    if len(buffer) < 5:
        return None
    size = int.from_bytes(buffer[1:5], "big")
    if not 4 <= size <= MOST:
        raise WireError("this is not the PostgreSQL protocol, or a message of more than 64 MiB")
    if len(buffer) < size + 1:
        return None
    return Message(buffer[:1], buffer[5 : size + 1], buffer[: size + 1])


_TOKENS = {b"1": "1", b"2": "2", b"3": "3", b"T": "D", b"n": "D", b"C": "E", b"I": "E", b"s": "E"}
"""Which of the client's messages is answered by a message of the server."""


class PgBack:
    """Bytes from PostgreSQL: the messages that are complete, and what has been answered."""

    def __init__(self) -> None:
        self._buffer = b""
        self.owed = ""
        """What the server still owes; Z is ReadyForQuery."""
        self._failed = False

    def expect(self, owed: str) -> None:
        """The client asked for this much more; after an error nothing is owed up to the next Sync."""
        self.owed += owed if not self._failed else "Z" * owed.count("Z")

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises WireError; Unsupported when the server starts a COPY."""
        self._buffer += data
        found = []
        while (message := _next_message(self._buffer)) is not None:
            self._buffer = self._buffer[len(message.raw) :]
            self._settle(message.kind)
            found.append(message)
        return found

    def _settle(self, kind: bytes) -> None:
        if kind == b"Z":
            self.owed, self._failed = self.owed.partition("Z")[2], False
        elif kind == b"E":
            ready = self.owed.find("Z")
            self._failed, self.owed = True, self.owed[ready:] if ready >= 0 else ""
        elif kind in (b"G", b"H", b"W"):
            raise Unsupported("COPY is out of reach of the fault explorer; use INSERT in what it explores")
        elif self.owed and _TOKENS.get(kind) == self.owed[0]:
            self.owed = self.owed[1:]


def pg_result(message: Message) -> str | None:
    """What a message says in a trace: the command's tag, or the error; None for others."""
    if message.kind == b"C":
        return message.body.rstrip(b"\0").decode("utf-8", "replace")
    if message.kind == b"E":
        fields = {part[:1]: part[1:] for part in message.body.split(b"\0") if part}
        code, text = (fields.get(key, b"").decode("utf-8", "replace") for key in (b"C", b"M"))
        return f"ERROR {code} {text}"
    return None


def pg_query(sql: bytes) -> bytes:
    """A simple query, ready to be sent."""
    return b"Q" + (len(sql) + 5).to_bytes(4, "big") + sql + b"\0"


PG_SYNC = b"S\0\0\0\4"
