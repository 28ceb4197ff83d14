"""Retries as numbers: the figures that lesson 06 shows, and the rules behind them."""

import pytest

from qlab import Backoff
from qlab.classroom import herd

PLAIN = herd.rule(Backoff.exponential(1.0))
JITTER = herd.rule(Backoff.exponential(1.0, jitter=0.5))


def test_without_jitter_all_come_back_at_once_and_with_it_a_tenth_of_them():
    assert herd.peak(herd.first_waits(PLAIN, 5000)) == 5000
    assert 400 < herd.peak(herd.first_waits(JITTER, 5000)) < 600


def test_a_share_of_jitter_lies_on_both_sides_of_the_base():
    waits = herd.first_waits(herd.around(1.0, 0.2), 5000)
    assert 0.8 <= min(waits) < 0.81
    assert 1.19 < max(waits) <= 1.2
    assert 8 <= len(herd.in_bins(waits)) <= 9


def test_a_bin_holds_what_falls_on_its_lower_edge():
    assert herd.in_bins([0.0, 0.049, 0.05, 1.0]) == {0: 2, 1: 1, 20: 1}
    assert herd.peak([]) == 0


def test_every_job_of_a_storm_ends_once():
    for rule in (PLAIN, JITTER):
        seen = herd.storm(rule, 5000, 300)
        assert seen.done + seen.dead == 5000
        assert len(seen.arrivals) == seen.done + seen.refused


def test_a_herd_loses_jobs_at_a_service_that_could_have_served_them_all():
    assert herd.storm(PLAIN, 5000, 300).dead == 5000 - 4 * 300
    assert herd.storm(JITTER, 5000, 300).dead == 0


def test_with_room_for_all_nobody_is_refused():
    seen = herd.storm(PLAIN, 5000, 5000)
    assert (seen.done, seen.refused, seen.dead) == (5000, 0, 0)


def test_hammering_every_two_seconds_keeps_a_database_down_and_backing_off_lets_it_up():
    hammered = herd.siege(lambda failures, rng: 0.0)
    assert hammered.in_time == 0
    assert hammered.left > 400
    spared = herd.siege(PLAIN)
    assert (spared.in_time, spared.left) == (50, 0)


def test_a_database_that_is_not_behind_answers_at_once():
    seen = herd.siege(PLAIN, workers=10, backlog=0)
    assert (seen.in_time, seen.in_vain, seen.left) == (10, 0, 0)


@pytest.mark.parametrize("rule", [PLAIN, JITTER])
def test_two_runs_give_the_same_figures(rule: herd.Rule):
    assert herd.storm(rule, 300, 20) == herd.storm(rule, 300, 20)
