"""Payloads are strict JSON: what arrives equals what was given, or the producer is told."""

import datetime
import decimal
import math

import pytest

from qlab import PayloadError
from qlab.payload import clean_text, decode, encode, encode_result, error_text

DEEP: list = []
for _ in range(60):
    DEEP = [DEEP]

GOOD = {
    "id": 130775545883395173, "big": 9007199254740993, "e": [], "o": {}, "n": None, "f": 0.1, "z": -0.0,
    "s": "é😀", "a:b": 1, "": 2, "deep": DEEP,
}  # fmt: skip


def test_h19_a_payload_arrives_as_it_was_given():
    arrived = decode(encode(GOOD))
    assert arrived == GOOD
    assert math.copysign(1, arrived["z"]) == -1
    assert type(arrived["e"]) is list
    assert type(arrived["o"]) is dict


def _circle():
    one = {}
    one["self"] = one
    return one


@pytest.mark.parametrize(
    "bad",
    [
        {"x": math.nan}, {"x": math.inf}, decimal.Decimal("1.5"),
        datetime.datetime.now(datetime.UTC), b"x", {1, 2},
        {1: "x"}, {None: 1}, (1, 2), {"x": (1,)}, _circle(), "\ud800", object(),
    ],
)  # fmt: skip
def test_h19_what_json_would_change_or_cannot_hold_is_refused(bad):
    with pytest.raises(PayloadError):
        encode(bad)


def test_a_payload_nested_too_deeply_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PayloadError, match="deep"):
        encode(deep)


def test_the_size_limit_counts_bytes():
    assert encode("é" * 10, limit=22) == '"' + "é" * 10 + '"'
    with pytest.raises(PayloadError, match="22 bytes, more than the limit of 21"):
        encode("é" * 10, limit=21)


def test_a_result_may_be_a_tuple():
    assert encode_result((1, 2)) == "[1,2]"


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def test_an_error_always_has_a_text():
    assert error_text(ValueError("bad")) == "ValueError: bad"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(Unreadable()).startswith("Unreadable: (its text could not be read")
    assert len(error_text(ValueError("x" * 10_000_000))) < 16_100


def test_text_for_redis_is_valid_unicode_without_nul():
    assert clean_text("a\x00b\ud800c") == "a\\x00b\\ud800c"
