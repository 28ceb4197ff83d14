"""Framing on bytes: real conversations in any portions, and nonsense, without a crash or a hang."""

import itertools

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlab.testing import Unsupported
from qlab.testing.explorer.resp import RedisFront, redis_result
from qlab.testing.explorer.wire import PgBack, PgFront, WireError, pg_query, pg_result, short_sql

FORBIDDEN = (WireError, Unsupported)


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def parse(sql: str, name: bytes = b"") -> bytes:
    return message(b"P", name + b"\0" + sql.encode() + b"\0\0\0")


def bind(name: bytes = b"") -> bytes:
    return message(b"B", b"\0" + name + b"\0" + b"\0" * 6)


DESCRIBE, EXECUTE = message(b"D", b"P\0"), message(b"E", b"\0" * 5)
SYNC, FLUSH = message(b"S"), message(b"H")
INSERT = "-- a comment with FROM nowhere\nINSERT INTO orders VALUES ($1)"
CONVERSATION = b"".join(
    [
        pg_query(b"BEGIN"),
        *(parse(INSERT), bind(), DESCRIBE, EXECUTE, SYNC),
        *(parse("SELECT 1", b"one"), bind(b"one"), EXECUTE, FLUSH, bind(b"one"), EXECUTE, SYNC),
        pg_query(b"COMMIT"),
        message(b"X"),
    ]
)
PIECES = [
    (None, "", "Z"),
    ("INSERT INTO orders VALUES ($1)", "INSERT orders", "12DEZ"),
    ("SELECT 1", "SELECT", "12E"),
    ("SELECT 1", "SELECT", "2EZ"),
    ("COMMIT", "COMMIT", "Z"),
    (None, "", ""),
]


def portions(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[one:other] for one, other in itertools.pairwise(places)]


cuts = st.lists(st.integers(0, 10_000), max_size=20)


@given(cuts)
def test_a_conversation_with_postgres_in_any_portions(places: list[int]):
    front, pieces = PgFront(), []
    for portion in portions(CONVERSATION, places):
        pieces += front.feed(portion)
    assert [(piece.label, piece.short, piece.owed) for piece in pieces] == PIECES
    assert b"".join(piece.raw for piece in pieces) == CONVERSATION
    assert [piece.end for piece in pieces] == [False] * 5 + [True]


@given(cuts)
def test_the_start_of_a_session_in_any_portions(places: list[int]):
    packet = (8 + 12).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"user\0me\0\0\0\0\0"
    found = [PgFront().startup(packet)]
    front = PgFront()
    found += [one for portion in portions(packet, places) if (one := front.startup(portion))]
    assert found == [(196608, packet)] * 2


READY = message(b"Z", b"I")
DONE = message(b"C", b"INSERT 0 1\0")


@given(cuts)
def test_what_the_server_owes_is_known_in_any_portions(places: list[int]):
    back = PgBack()
    back.expect("12DEZ")
    answer = message(b"1") + message(b"2") + message(b"n") + DONE + READY
    for portion in portions(answer, places):
        assert back.owed
        back.feed(portion)
    assert back.owed == ""


def test_after_an_error_the_server_skips_to_the_next_sync():
    back = PgBack()
    back.expect("12E")
    error = message(b"E", b"SERROR\0C23505\0Mtwice\0\0")
    assert [pg_result(one) for one in back.feed(message(b"1") + error)] == [None, "ERROR 23505 twice"]
    assert back.owed == ""
    back.expect("2EZ")
    assert back.owed == "Z"
    back.feed(READY)
    assert back.owed == ""


@given(st.binary(max_size=400), cuts)
def test_nonsense_is_no_postgres(data: bytes, places: list[int]):
    for reader in (PgFront().feed, PgBack().feed, PgFront().startup):
        try:
            for portion in portions(data, places):
                list(reader(portion) or ())
        except FORBIDDEN:
            pass


@given(st.lists(st.tuples(st.sampled_from(b"QPBDECSHXFpdcf"), st.binary(max_size=60)), max_size=12))
def test_messages_with_nonsense_in_them(messages: list[tuple[int, bytes]]):
    front = PgFront()
    try:
        for kind, body in messages:
            for piece in front.feed(message(bytes([kind]), body)):
                assert piece.raw
    except FORBIDDEN:
        pass


@pytest.mark.parametrize(
    ("sql", "short"),
    [
        ("INSERT INTO a VALUES (1)", "INSERT a"),
        ("insert into public.a(b) values ('from c')", "INSERT public.a"),
        ("SELECT count(*) FROM a WHERE b", "SELECT a"),
        ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock"),
        ("UPDATE ONLY a SET b = 1", "UPDATE a"),
        ("COMMIT", "COMMIT"),
        ("", ""),
    ],
)
def test_a_statement_in_short(sql: str, short: str):
    assert short_sql(sql) == short


@pytest.mark.parametrize(
    "sql", ["COPY a FROM STDIN", "LISTEN a", "SELECT current_timestamp", "INSERT INTO a VALUES (LOCALTIME)"]
)
def test_statements_out_of_reach(sql: str):
    with pytest.raises(Unsupported):
        list(PgFront().feed(pg_query(sql.encode())))


def test_words_in_a_text_are_no_statement():
    (piece,) = PgFront().feed(pg_query(b"INSERT INTO a VALUES ('current_timestamp') -- LISTEN current_date"))
    assert piece.short == "INSERT a"


def command(*words: str) -> bytes:
    return hiredis.pack_command(words)


SCRIPT = "return 1"
SHA = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
TALK = b"".join(
    [
        command("HELLO", "3"),
        command("SET", "k", "v", "NX"),
        *(command("MULTI"), command("INCR", "n"), command("GET", "k"), command("EXEC")),
        command("EVALSHA", SHA, "1", "k", "x"),  # not loaded: it only gets NOSCRIPT
        command("EVAL", SCRIPT, "1", "k", "x"),
        command("EVALSHA", SHA, "1", "k", "x"),
    ]
)
TALKED = [
    (None, "HELLO 3", "R"),
    ("SET k", "SET k", "R"),
    ("MULTI INCR n, GET k", "MULTI INCR n, GET k", "RRRR"),
    (None, "EVAL one", "R"),
    (f"EVAL {SHA} k", "EVAL one", "R"),
    (f"EVAL {SHA} k", "EVAL one", "R"),
]


@given(cuts)
def test_a_conversation_with_redis_in_any_portions(places: list[int]):
    front, pieces = RedisFront({SHA: "one"}, set()), []
    for portion in portions(TALK, places):
        pieces += front.feed(portion)
    assert [(piece.label, piece.short, piece.owed) for piece in pieces] == TALKED
    assert b"".join(piece.raw for piece in pieces) == TALK


@given(st.binary(max_size=300), cuts)
def test_nonsense_is_no_redis(data: bytes, places: list[int]):
    front = RedisFront({}, set())
    try:
        for portion in portions(data, places):
            list(front.feed(portion))
    except FORBIDDEN:
        pass


@given(st.lists(st.lists(st.binary(max_size=12), min_size=1, max_size=5), max_size=6), cuts)
def test_any_commands_come_through_unchanged(commands: list[list[bytes]], places: list[int]):
    data = b"".join(hiredis.pack_command(tuple(words)) for words in commands)
    front, raw = RedisFront({}, set()), b""
    try:
        for portion in portions(data, places):
            raw += b"".join(piece.raw for piece in front.feed(portion))
    except FORBIDDEN:
        return
    assert raw == data


@pytest.mark.parametrize(
    "words",
    [
        ("BLPOP", "k", "1"), ("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), ("SUBSCRIBE", "c"), ("TIME",),
        ("CLIENT", "REPLY", "OFF"), ("MONITOR",), ("WAIT", "1", "0"), ("CONFIG", "SET", "a", "b"),
    ],
)  # fmt: skip
def test_commands_out_of_reach(words: tuple[str, ...]):
    with pytest.raises(Unsupported):
        list(RedisFront({}, set()).feed(command(*words)))


def test_a_reply_in_a_trace_shows_no_text():
    assert [redis_result(one) for one in (b"OK", b"secret", None, 3, [1, 2])] == [
        "OK", "a text", "nil", "3", "2 items",
    ]  # fmt: skip
