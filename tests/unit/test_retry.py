"""Backoff: growth, ceiling, jitter inside its documented interval, no overflow."""

import random
from datetime import timedelta

import pytest

from qlab import Backoff
from qlab.retry import milliseconds, seconds


def test_exponential_doubles_from_the_base():
    backoff = Backoff.exponential(1.0)
    assert [backoff.delay(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 8]


def test_fixed_stays():
    assert [Backoff.fixed(2.5).delay(n) for n in (1, 2, 9)] == [2.5, 2.5, 2.5]


def test_h08_the_delay_never_passes_the_ceiling_nor_overflows():
    assert Backoff.exponential(1.0).delay(60) == 300
    assert Backoff.exponential(0.2, max_delay=10).delay(10_000) == 10


def test_h08_the_ceiling_that_nobody_gave_cuts_no_base():
    """Whoever asks for ten minutes must not be retried after five."""
    assert [Backoff.exponential(600).delay(n) for n in (1, 2)] == [600, 600]
    assert Backoff.exponential(600, max_delay=60).delay(1) == 60


@pytest.mark.parametrize(("attempt", "base"), [(1, 0.3), (2, 0.6), (3, 1.2)])
def test_h08_jitter_lies_between_its_share_and_the_full_delay(attempt, base):
    backoff, rng = Backoff.exponential(0.3, jitter=0.5), random.Random(7)
    draws = [backoff.delay(attempt, rng) for _ in range(10_000)]
    assert base / 2 <= min(draws) < base * 0.51
    assert base * 0.99 < max(draws) <= base


def test_h08_a_base_of_zero_is_immediate_whatever_the_jitter():
    assert Backoff.exponential(0, jitter=0.9).delay(5) == 0


def test_the_stored_form_gives_the_same_rule_back():
    for backoff in (Backoff.exponential(0.2, jitter=0.5, max_delay=1234567.891), Backoff.fixed(900)):
        assert Backoff.decode(backoff.encode()) == backoff
    assert Backoff.exponential(0.2, jitter=0.5).encode() == "exponential:200:0.5:300000"


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "1", None, True, 1e11])
def test_a_bad_duration_is_refused(bad):
    with pytest.raises(ValueError, match="delay"):
        seconds(bad, "delay")


@pytest.mark.parametrize("jitter", [-0.1, 1.1, "x"])
def test_a_bad_jitter_is_refused(jitter):
    with pytest.raises(ValueError, match="jitter"):
        Backoff.fixed(1, jitter=jitter)


def test_a_delay_is_rounded_up_so_that_nothing_starts_early():
    assert milliseconds(0.0004, "delay") == 1
    assert milliseconds(0.2, "delay") == 200
    assert milliseconds(timedelta(milliseconds=1.5), "delay") == 2
