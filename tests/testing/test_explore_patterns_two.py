"""Our own patterns with two workers at once: every interleaving with one switch, then one fault besides."""

import pytest

from qlab.testing import FaultLab, assert_no_failure, explore
from tests.testing import pattern_claims as claims

SWITCHES = {
    "an idempotent charge": 1,
    "a relay to a queue that dedupes": 1,
    "exclusive work": 1,
    "a roll-up into the cursor's database": 0,
    "rows handed on": 0,
    "an effect in the queue's database": 0,
    "an effect outside with a key": 0,
    "a lock in Redis with a fence": 1,
}
"""Within which one fault is tried everywhere; one switch more would be thousands of schedules."""


@pytest.mark.parametrize("name", claims.HOLD)
async def test_two_at_once_do_no_harm_to(name: str, lab: FaultLab):
    arguments = await claims.HOLD[name].arguments(lab, "AB")
    report = await assert_no_failure(lab, **arguments, faults=0, switches=1)
    assert report.schedules > 2


@pytest.mark.slow  # hundreds of schedules each
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWITCHES)
async def test_two_at_once_and_one_fault_do_no_harm_to(name: str, lab: FaultLab):
    arguments = await claims.HOLD[name].arguments(lab, "AB")
    await assert_no_failure(lab, **arguments, faults=1, switches=SWITCHES[name])


async def test_an_advisory_lock_is_not_once_for_each_tick(lab: FaultLab):
    """Its documentation says so: whoever comes a little later finds the lock free again."""
    arguments = await claims.VISIT.arguments(lab, "AB")

    async def once(stores: claims.Evidence) -> str:
        return claims.do.how_often(len(await stores.rows("SELECT 1 FROM visitor")))

    report = await explore(lab, **{**arguments, "invariant": once}, faults=0, switches=1)
    assert set(report.outcomes) == {"once", "twice"}


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_two_at_once_and_one_fault_are_enough_for_a_lock_in_redis_alone(lab: FaultLab):
    report = await explore(lab, **await claims.LOCK.arguments(lab, "AB"), faults=1, switches=1)
    assert report.shortest_failure is not None
    assert report.shortest_failure.outcome == "twice"
    assert report.shortest_failure.faults == 1
