"""One schedule: the queue delivers, actors move one effect at a time, until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qlab.testing.explorer.errors import NonDeterministic, Unsupported
from qlab.testing.explorer.gate import Delivery, Effect
from qlab.testing.explorer.report import FAULTS, QUEUE, Schedule, Step
from qlab.testing.explorer.rules import Move, format_seed
from qlab.testing.explorer.stage import Stage

_MOST_MOVES = 2000
_MOST_PAUSES = 5000
"""Moments in a row at which a timer fires and nobody asks a server for anything."""
_MOST_STALL_DELIVERIES = 3
_MOST_DELIVERIES = 12


@dataclass(frozen=True, slots=True)
class Choice:
    """A point where several things could have happened; the first option is what happens by itself."""

    options: tuple[Move, ...]
    move: Move
    label: str


@dataclass(slots=True)
class _Entry:
    """A step whose result is not known yet."""

    delivery: Delivery
    effect: str
    fault: str
    at: float
    store: str
    source: Effect | None
    text: str = ""

    def step(self) -> Step:
        result = self.source.result if self.source else self.text
        return Step(
            self.delivery.chain, self.delivery.number, self.effect, self.fault, self.at, self.store, result
        )


class Run:
    """Plays `prefix`, then the default at every choice. `faults` and `switches` bound the options noted."""

    def __init__(self, stage: Stage, prefix: Sequence[Move], faults: int, switches: int) -> None:
        self._stage, self._loop, self._rules = stage, stage.loop, stage.rules
        self._prefix, self._most_faults, self._most_switches = prefix, faults, switches
        self.choices: list[Choice] = []
        self.faults = self.switches = 0
        self.acknowledged: list[str] = []
        self.gave_up: list[str] = []
        self.hung = False
        self._log: list[_Entry] = []
        self._due: list[tuple[float, str, int]] = []
        self._failures: dict[str, int] = {}
        self._current: Delivery | None = None
        self._looked_again = False
        self._pauses = 0

    async def play(self) -> None:
        """Run it. Raises NonDeterministic, Unsupported, Unresponsive."""
        for name in self._stage.actors:
            await self._deliver(name, 0)
        self._current = self._stage.deliveries[0]
        while True:
            await self._stage.quiesce()
            for delivery in self._stage.deliveries:
                self._note_end(delivery)
            if self._loop.working():
                continue  # servers clean up after somebody who has ended
            enabled = [one for one in self._alive() if one.pending and one.wakes_at <= self._loop.now]
            if enabled:
                self._move(enabled)
            elif not await self._let_time_pass():
                break
        self.hung = any(not one.stalled for one in self._alive())

    def schedule(self, outcome: str) -> Schedule:
        """The finished run, as data."""
        interesting = [at + 1 for at, one in enumerate(self.choices) if one.move != one.options[0]]
        seed = format_seed([one.move for one in self.choices], max(interesting, default=0))
        steps = tuple(entry.step() for entry in self._log)
        return Schedule(seed, outcome, self.faults, self.switches, steps)

    async def _deliver(self, chain: str, number: int) -> None:
        delivery = await self._stage.deliver(chain, number)
        self._note(delivery, "deliver")

    def _note(self, delivery: Delivery, effect: str, text: str = "") -> None:
        self._log.append(_Entry(delivery, effect, ".", self._loop.now, QUEUE, None, text))

    def _alive(self) -> list[Delivery]:
        return [delivery for delivery in self._stage.deliveries if not delivery.seen]

    def _note_end(self, delivery: Delivery) -> None:
        """The queue hears of a delivery that has ended since: acknowledged, failed, or its worker is dead."""
        if delivery.refusal:
            raise Unsupported(delivery.refusal)
        if delivery.seen or not (delivery.dead or delivery.finished):
            return
        delivery.seen = True
        if delivery.dead:
            self._note(delivery, "dead")
            if not delivery.stalled:
                self._come_back(delivery, self._rules.visibility)
            return
        error = delivery.failure()
        if error is None:
            self._note(delivery, "ack")
            self.acknowledged.append(delivery.chain)
        else:
            self._note(delivery, "fail", error)
            self._retry(delivery)
        delivery.leave()

    def _retry(self, delivery: Delivery) -> None:
        if delivery.stalled or delivery.chain in self.acknowledged:
            return  # its lease is over: the queue has given the job to another worker already
        failures = self._failures[delivery.chain] = self._failures.get(delivery.chain, 0) + 1
        pause = self._rules.pause(failures)
        if pause is None:
            self.gave_up.append(delivery.chain)
            self._note(delivery, "give up")
        else:
            self._come_back(delivery, pause)

    def _come_back(self, delivery: Delivery, after: float | None) -> None:
        if delivery.number >= _MOST_DELIVERIES:
            self.gave_up.append(delivery.chain)
            self._note(delivery, "give up")
        elif after is not None:
            self._due.append((self._loop.now + after, delivery.chain, delivery.number + 1))

    async def _let_time_pass(self) -> bool:
        """Nobody can move: go to the next moment at which somebody can. False: there is none."""
        alive = self._alive()
        asleep = [one for one in alive if one.pending]
        self._due = [due for due in self._due if due[1] not in self.acknowledged]
        moments = [due[0] for due in self._due] + [one.wakes_at for one in asleep]
        gone = [one for one in self._stage.deliveries if one.seen]
        if (timer := self._stage.next_timer([*asleep, *gone])) is not None and len(alive) > len(asleep):
            moments.append(timer)
        if not moments:
            again = bool(self._loop.blocked) and not self._looked_again
            self._looked_again = True  # a lock may have come free since it was last asked
            self._loop.blocked.clear()
            return again
        self._looked_again = False
        self._pauses += 1
        if self._pauses > _MOST_PAUSES:
            raise Unsupported(f"nothing happens but {_MOST_PAUSES} timers: does a handler wait for ever?")
        self._stage.advance(max(0.0, min(moments) - self._loop.now), asleep)
        self._current = None  # nobody is interrupted by whoever comes next
        for due in sorted(self._due):
            if due[0] <= self._loop.now + 1e-9:
                self._due.remove(due)
                await self._deliver(due[1], due[2])
        return True

    def _move(self, enabled: list[Delivery]) -> None:
        options, first, interrupts = self._options(enabled)
        move = self._choose(options)
        delivery = next(one for one in enabled if one.name == move[0])
        effect, fault = delivery.pending[0], move[1]
        self.switches += interrupts and delivery is not first
        self.faults += fault != "."
        self.choices.append(Choice(tuple(options), move, f"{delivery.name} {effect.label}"))
        self._log.append(_Entry(delivery, effect.short, fault, self._loop.now, effect.store, effect))
        if len(self.choices) > _MOST_MOVES:
            raise Unsupported(
                f"a schedule has more than {_MOST_MOVES} effects: does a handler loop for ever?"
            )
        self._current, self._pauses = delivery, 0
        if fault == "~":
            self._stall(delivery)
        else:
            delivery.pending.pop(0)
            effect.verdict.set_result(fault)

    def _stall(self, delivery: Delivery) -> None:
        """It sleeps for longer than its lease; meanwhile the queue takes it for dead."""
        delivery.stalled, delivery.wakes_at = True, self._loop.now + self._rules.stall
        if delivery.chain not in self.acknowledged and delivery.number < _MOST_STALL_DELIVERIES:
            self._come_back(delivery, self._rules.visibility)

    def _options(self, enabled: list[Delivery]) -> tuple[list[Move], Delivery, bool]:
        """The default first; who it is; and whether letting another go interrupts that one."""
        fresh = [one for one in enabled if not one.stalled] or enabled
        first = self._current if self._current in fresh else fresh[0]
        assert first is not None
        interrupts = first is self._current
        options = []
        for one in [first, *(other for other in enabled if other is not first)]:
            if one is not first and interrupts and self.switches >= self._most_switches:
                continue
            faults = [fault for fault in FAULTS if self.faults < self._most_faults and _applies(fault, one)]
            options += [(one.name, fault) for fault in [".", *faults]]
        return options, first, interrupts

    def _choose(self, options: list[Move]) -> Move:
        at = len(self.choices)
        if at >= len(self._prefix):
            return options[0]
        if self._prefix[at] not in options:
            possible = " ".join("".join(option) for option in options)
            seed = format_seed(self._prefix, len(self._prefix))
            raise NonDeterministic(
                f"in schedule {seed!r} move {at + 1} cannot be {''.join(self._prefix[at])!r} this time, only "
                f"{possible}: for the same answers a handler must do the same (no randomness, no real clock)"
            )
        return self._prefix[at]


def _applies(fault: str, delivery: Delivery) -> bool:
    if fault == "!":
        return delivery.pending[0].store == "provider"  # the stores answer or are gone
    return fault != "~" or not delivery.stalled
