"""Our own patterns with two workers at once: one fault and one switch, every interleaving within that."""

import pytest

from qlab.testing import FaultLab, assert_no_failure, explore
from tests.testing import pattern_claims as claims

AT_ONCE = [name for name in claims.HOLD if name != "a lock in Redis with a fence"]
MANY = [
    "an idempotent charge",
    "a relay to a queue that dedupes",
    "exclusive work",
    "an effect in the queue's database",
]


@pytest.mark.parametrize("name", AT_ONCE)
async def test_two_at_once_do_no_harm_to(name: str, lab: FaultLab):
    arguments = await claims.HOLD[name].arguments(lab, "AB")
    report = await assert_no_failure(lab, **arguments, faults=0, switches=1)
    assert report.schedules > 2


@pytest.mark.slow  # hundreds of schedules each
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MANY)
async def test_two_at_once_and_one_fault_do_no_harm_to(name: str, lab: FaultLab):
    arguments = await claims.HOLD[name].arguments(lab, "AB")
    await assert_no_failure(lab, **arguments, faults=1, switches=1)


async def test_an_advisory_lock_is_not_once_for_each_tick(lab: FaultLab):
    """Its documentation says so: whoever comes a little later finds the lock free again."""
    arguments = await claims.VISIT.arguments(lab, "AB")

    async def once(stores: claims.Evidence) -> str:
        return claims.do.how_often(len(await stores.rows("SELECT 1 FROM visitor")))

    report = await explore(lab, **{**arguments, "invariant": once}, faults=0, switches=1)
    assert set(report.outcomes) == {"once", "twice"}
