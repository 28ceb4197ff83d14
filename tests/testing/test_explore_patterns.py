"""Our own patterns are held to what they claim: one actor, one fault, all schedules tried."""

import pytest

from qlab.testing import DeliveryRules, FaultLab, assert_no_failure, explore
from tests.testing import pattern_claims as claims
from tests.testing.explored import PATIENT


@pytest.mark.parametrize("name", claims.HOLD)
async def test_one_fault_anywhere_does_no_harm_to(name: str, lab: FaultLab):
    arguments = await claims.HOLD[name].arguments(lab)
    await assert_no_failure(lab, **arguments, faults=1)


@pytest.mark.parametrize("name", claims.FAIL)
async def test_one_fault_is_enough_for(name: str, lab: FaultLab):
    pattern, outcome = claims.FAIL[name]
    report = await explore(lab, **await pattern.arguments(lab), faults=1)
    assert set(report.outcomes) == {"once", outcome}
    assert report.complete


def test_patient_retries_outlast_the_lease_and_the_usual_ones_do_not():
    assert sum(DeliveryRules().backoff) < DeliveryRules().lease < sum(PATIENT.backoff)
