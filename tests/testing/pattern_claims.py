"""What the patterns of qlab.postgres and qlab.patterns claim, as data for the explorer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from qlab.postgres import idempotency, outbox
from qlab.testing import Actor, DeliveryRules, Evidence, FaultLab, Provider
from tests.testing import patterns as do
from tests.testing.explored import PATIENT, REQUEST, charged

DEDUPES = Provider(dedupe=True)


@dataclass(frozen=True)
class Pattern:
    """A handler with its tables, what is there at the beginning, and the invariant that it keeps."""

    handler: do.Handler
    invariant: Callable[[Evidence], Awaitable[str]]
    create: Callable[[do.Conn], Awaitable[object]] | None = None
    setup: Callable[[Evidence], Awaitable[object]] | None = None
    rules: DeliveryRules = PATIENT
    provider: Provider = DEDUPES

    async def arguments(self, lab: FaultLab, actors: str = "A") -> dict[str, Any]:
        """What `explore` and `assert_no_failure` need, for one actor or two; the tables are there."""
        if self.create is not None:
            await lab.install(self.create)
        return {
            "actors": [Actor(name, self.handler) for name in actors],
            "invariant": self.invariant,
            "setup": self.setup,
            "rules": self.rules,
            "provider": self.provider,
        }


CHARGE = Pattern(do.charge_once, charged("idempotency_key"), idempotency.install)
RELAY = Pattern(do.relaying("dedupe"), do.delivered, outbox.install, do.two_messages)
VISIT = Pattern(do.visit_alone, do.nobody_overwritten, do.create_counter)
DAYS = Pattern(do.rolling_up("here", date(2029, 12, 30)), do.days_here, do.create_days)
PG_JOB = Pattern(do.working("outside"), do.one_charge, do.create_jobs, do.one_pg_job)
RECEIPT = Pattern(do.working("here"), do.one_receipt, do.create_jobs, do.one_pg_job)
ORDER = Pattern(do.order_and_message, do.both_or_none, do.create_orders, rules=REQUEST)
LOCK = Pattern(do.locked, do.one_charge)
FENCE = Pattern(do.fenced, do.newest_wins, do.create_report)

HOLD = {
    "an idempotent charge": CHARGE,
    "an order with its message": ORDER,
    "a relay to a queue that dedupes": RELAY,
    "exclusive work": VISIT,
    "a roll-up into the cursor's database": DAYS,
    "rows handed on": Pattern(do.read_events, do.events_seen, do.create_rows, do.three_events),
    "an effect in the queue's database": RECEIPT,
    "an effect outside with a key": replace(PG_JOB, handler=do.working("outside", key="charge:o1")),
    "a lock in Redis with a fence": FENCE,
}
"""Within one fault nothing fails."""

FAIL = {
    "a charge without dedupe at the provider": (replace(CHARGE, provider=Provider(dedupe=False)), "twice"),
    "retries that end before the lease": (replace(CHARGE, rules=DeliveryRules()), "stuck"),
    "a relay to a queue that forgets ids": (replace(RELAY, handler=do.relaying("push")), "twice"),
    "a roll-up into another store": (
        replace(DAYS, handler=do.rolling_up("elsewhere", date(2029, 12, 31)), invariant=do.days_elsewhere),
        "twice",
    ),
    "an effect outside without a key": (PG_JOB, "twice"),
    "a lock in Redis alone": (LOCK, "twice"),
}
"""Their documentation says so: with the one outcome, besides "once", that one fault leads to."""
