"""The search: every schedule within the bounds, depth first, each by replaying its choices from the start."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import redis.asyncio

from qlab.testing.explorer.aside import aside
from qlab.testing.explorer.checks import check_actors, check_bounds, check_kinds, check_lab
from qlab.testing.explorer.errors import ExplorerError, NonDeterministic, Unresponsive
from qlab.testing.explorer.processes import Nursery
from qlab.testing.explorer.report import FAULTS, OUTCOMES, Report, Row, Schedule, length, worse
from qlab.testing.explorer.rules import Actor, DeliveryRules, Move, Provider, asked, parse_seed
from qlab.testing.explorer.run import Choice, Run
from qlab.testing.explorer.servers import FaultLab
from qlab.testing.explorer.stage import Stage
from qlab.testing.explorer.world import Evidence

Invariant = Callable[[Evidence], Awaitable[str]]
Progress = Callable[[int, Mapping[str, int]], object]

_REPORT_EVERY = 0.1  # seconds between two calls of `progress`


@dataclass(frozen=True)
class Plan:
    """All that was asked of `explore`."""

    lab: FaultLab
    actors: tuple[Actor, ...]
    invariant: Invariant
    faults: int = 1
    switches: int = 0
    rules: DeliveryRules = field(default_factory=DeliveryRules)
    provider: Provider = field(default_factory=Provider)
    setup: Callable[[Evidence], Awaitable[object]] | None = None
    limit_schedules: int | None = None
    limit_seconds: float | None = None
    isolate: bool = False
    uid: int | None = None
    patience: float = 30.0

    def __post_init__(self) -> None:
        check_lab(self.lab)
        check_actors(self.actors)
        check_bounds(self.faults, self.switches, self.limit_schedules, self.limit_seconds, self.patience)
        check_kinds(self.rules, self.provider, self.invariant, self.setup)


class Theatre:
    """Plays schedules of a plan, one after another, each on stores that are as at the beginning."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._closing = contextlib.ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        plan, closing = self.plan, self._closing
        closing.enter_context(plan.lab.in_use())
        plan.lab.remember()
        self._plain = asyncio.new_event_loop()  # in real time, for setup and invariant
        closing.callback(self._plain.close)
        nursery = Nursery(plan.actors, plan.uid) if plan.isolate else None
        if nursery is not None:
            closing.callback(nursery.close)
        self._stage = Stage(plan.lab, plan.actors, plan.rules, plan.provider, nursery)
        self._stage.loop.patience = plan.patience
        closing.callback(self._stage.close)
        self._connection, self._redis = self._plain.run_until_complete(self._connect())
        closing.callback(lambda: self._plain.run_until_complete(self._disconnect()))

    async def _connect(self) -> tuple[psycopg.AsyncConnection[Any], redis.asyncio.Redis]:
        connection = await psycopg.AsyncConnection.connect(self.plan.lab.pg_dsn, autocommit=True)
        return connection, redis.asyncio.Redis.from_url(self.plan.lab.redis_url, decode_responses=True)

    async def _disconnect(self) -> None:
        await self._connection.close()
        await self._redis.aclose()

    def play(self, prefix: Sequence[Move], faults: int, switches: int) -> tuple[Schedule, list[Choice]]:
        """One schedule, and the choices there were."""
        stage = self._stage
        run = Run(stage, prefix, faults, switches)
        stage.reset(redis_used=self.plan.setup is not None)
        if self.plan.setup is not None:
            self._plain.run_until_complete(asked(self.plan.setup, "setup", self._evidence(run)))
        try:
            try:
                stage.loop.run_until_complete(run.play())
            except Unresponsive as error:
                names = [one.name for one in stage.deliveries if not one.seen and not one.pending]
                raise Unresponsive(f"{' or '.join(names) or 'an actor'} {error}") from None
            outcome = self._plain.run_until_complete(self._judge(run))
        finally:
            stage.loop.run_until_complete(stage.clear())
        return run.schedule(outcome), run.choices

    async def _judge(self, run: Run) -> str:
        try:
            word = await asked(self.plan.invariant, "the invariant", self._evidence(run))
        except Exception as error:
            error.add_note(f"raised by the invariant, after this schedule:\n{run.schedule('?').trace()}")
            raise
        if word not in OUTCOMES:
            raise ValueError(f"the invariant answered {word!r}; it must be one of {', '.join(OUTCOMES)}")
        return "stuck" if run.hung and word == "once" else word

    def _evidence(self, run: Run) -> Evidence:
        gave_up = tuple(name for name in run.gave_up if name not in run.acknowledged)
        loop, lab = self._stage.loop, self.plan.lab
        return Evidence(
            lambda: loop.now, lab.pg_dsn, lab.redis_url, self._connection, self._redis,
            self._stage.provider, gave_up, tuple(run.acknowledged),
        )  # fmt: skip

    def close(self) -> None:
        """Leave nothing open."""
        self._closing.close()


class Search:
    """Collects what the schedules show; keeps none of them but the shortest failure."""

    def __init__(self, plan: Plan, progress: Callable[[int, Mapping[str, int]], None]) -> None:
        self._plan, self._progress = plan, progress
        self._outcomes: Counter[str] = Counter()
        self._failure: Schedule | None = None
        self._cells: dict[tuple[int, str, str], dict[str, tuple[str, str]]] = {}
        self._digest = hashlib.sha256()
        self._begin = self._told = time.monotonic()

    def run(self, stop: threading.Event) -> Report:
        """Explore until nothing is left, a limit is reached or `stop` is set."""
        theatre = Theatre(self._plan)
        try:
            complete = self._explore(theatre, stop)
        finally:
            theatre.close()
        self._progress(self._outcomes.total(), dict(self._outcomes))
        return self._report(complete)

    def _explore(self, theatre: Theatre, stop: threading.Event) -> bool:
        plan = self._plan
        _, known = theatre.play((), plan.faults, plan.switches)  # also fills caches: the real first follows
        stack: list[tuple[list[Move], list[str]]] = [([], [choice.label for choice in known])]
        while stack:
            if stop.is_set() or self._limit_reached():
                return False
            prefix, expected = stack.pop()
            schedule, choices = theatre.play(prefix, plan.faults, plan.switches)
            _check_repeated(schedule, expected, choices)
            self._collect(schedule)
            moves, labels = [one.move for one in choices], [one.label for one in choices]
            for at in range(len(prefix), len(choices)):
                for option in choices[at].options[1:]:
                    stack.append(([*moves[:at], option], labels[:at]))
        return True

    def _limit_reached(self) -> bool:
        most, seconds = self._plan.limit_schedules, self._plan.limit_seconds
        if most is not None and self._outcomes.total() >= most:
            return True
        return seconds is not None and time.monotonic() - self._begin >= seconds

    def _collect(self, schedule: Schedule) -> None:
        self._outcomes[schedule.outcome] += 1
        steps = [(one.name, one.effect, one.fault, one.at, one.store) for one in schedule.steps]
        self._digest.update(repr((schedule.seed, schedule.outcome, steps)).encode())
        if schedule.outcome != "once" and (self._failure is None or length(schedule) < length(self._failure)):
            self._failure = schedule
        if schedule.switches == 0 and schedule.faults <= 1:
            self._fill_cells(schedule)
        if (now := time.monotonic()) - self._told > _REPORT_EVERY:
            self._told = now
            self._progress(self._outcomes.total(), dict(self._outcomes))

    def _fill_cells(self, schedule: Schedule) -> None:
        for index, step in enumerate(schedule.effects, 1):
            if schedule.faults == 0:
                self._cells.setdefault((index, step.actor, step.effect), {})
            elif step.fault != ".":
                cells = self._cells.setdefault((index, step.actor, step.effect), {})
                before = cells.get(step.fault)
                if before is None or worse(before[0], schedule.outcome) != before[0]:
                    cells[step.fault] = schedule.outcome, schedule.seed

    def _report(self, complete: bool) -> Report:
        rows = []
        for (index, actor, effect), cells in sorted(self._cells.items()):
            outcomes = {fault: cells[fault][0] if fault in cells else None for fault in FAULTS}
            rows.append(
                Row(actor, index, effect, outcomes, {fault: seed for fault, (_, seed) in cells.items()})
            )
        plan = self._plan

        async def replay(seed: str) -> Schedule:
            return await aside(lambda stop: _replay(plan, seed))

        return Report(
            dict(self._outcomes), self._outcomes.total(), time.monotonic() - self._begin, plan.faults,
            plan.switches, complete, tuple(rows), self._failure, self._digest.hexdigest()[:16], replay,
        )  # fmt: skip


def _check_repeated(schedule: Schedule, expected: list[str], choices: list[Choice]) -> None:
    for at, label in enumerate(expected):
        found = choices[at].label if at < len(choices) else "nothing"
        if found != label:
            raise NonDeterministic(
                f"in schedule {schedule.seed!r} move {at + 1} was {label!r} the first time and {found!r} the "
                "second: for the same answers a handler must do the same (no randomness, no real clock)"
            )


def _replay(plan: Plan, seed: str) -> Schedule:
    moves = parse_seed(seed)
    theatre = Theatre(plan)
    try:
        faults = sum(fault != "." for _, fault in moves)
        schedule, choices = theatre.play(moves, faults, switches=len(moves))
    finally:
        theatre.close()
    if len(choices) < len(moves):
        raise ExplorerError(f"seed {seed!r} has {len(moves)} moves, but all is over after {len(choices)}")
    return schedule


async def explore(
    lab: FaultLab,
    actors: Sequence[Actor],
    invariant: Invariant,
    *,
    faults: int = 1,
    switches: int = 0,
    rules: DeliveryRules | None = None,
    provider: Provider | None = None,
    setup: Callable[[Evidence], Awaitable[object]] | None = None,
    limit_schedules: int | None = None,
    limit_seconds: float | None = None,
    progress: Progress | None = None,
    isolate: bool = False,
    uid: int | None = None,
    patience: float = 30.0,
) -> Report:
    """Run every schedule of one or two actors within the bounds and judge each by `invariant`.

    faults:    at most so many effects of a schedule fail (each in each of the ways of FAULTS).
    switches:  at most so many times is an actor interrupted that could have gone on.
    invariant: `async def (evidence) -> word`, a word of OUTCOMES; it looks at the real stores.
    setup:     `async def (evidence)` before each schedule, for rows and keys beyond those of `lab.install`.
    limit_schedules, limit_seconds: end earlier; the verdict then says so.
    progress:  called now and then in the caller's loop with the number of schedules and the outcomes so far.
    isolate:   each delivery is a forked process, killed with SIGKILL; handlers must then be importable.
    uid:       user id of these processes if we are root (None: one that nobody else has).
    patience:  real seconds within which an actor must come to rest; a spinning one is ended after them.

    Handlers, `setup` and `invariant` run in a thread of their own, on loops of their own: they share no
    connection, lock or task with the caller. The empty store is the one after `lab.install`: other rows that
    are in the lab's tables when the exploration begins are there at the beginning of every schedule.

    Raises NonDeterministic, Unsupported, Unresponsive (all ExplorerError), ValueError for wrong arguments.
    """
    plan = Plan(
        lab, tuple(actors), invariant, faults, switches, rules or DeliveryRules(), provider or Provider(),
        setup, limit_schedules, limit_seconds, isolate, uid, patience,
    )  # fmt: skip
    loop = asyncio.get_running_loop()

    def tell(done: int, outcomes: Mapping[str, int]) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, outcomes)

    return await aside(Search(plan, tell).run)
