"""A claim about handlers as one line of a test: these actors, this invariant, no failure within these bounds.

    async def test_charging_survives_one_fault_and_one_switch(lab):        # lab: an open FaultLab
        actors = [Actor("A", handler), Actor("B", handler)]
        await assert_no_failure(lab, actors, charged_once, faults=1, switches=1)

When it does not hold, the test's message is the shortest failing schedule in words, with its seed.  The same
call with ``seed="A1>"`` runs that one schedule alone, for as long as you look for the cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from qlab.testing.explorer.errors import ExplorerError
from qlab.testing.explorer.explore import explore
from qlab.testing.explorer.report import QUEUE, Report, Schedule, Step
from qlab.testing.explorer.rules import Actor
from qlab.testing.explorer.servers import FaultLab
from qlab.testing.explorer.world import Evidence

_HAPPENS = {
    ".": "{who}: {effect} ({store}){answer}",
    "<": "{who} is about to do {effect} ({store}) and dies: nothing happens there",
    ">": "{who}: {effect} ({store}) is done{answer}, but {who} dies before it sees the reply",
    "~": "{who} stalls just before {effect} ({store}), for longer than its lease",
    "!": "{who}: {effect} ({store}) fails for a moment{answer}: nothing happens there",
    "?": "{who}: {effect} ({store}) is done{answer}, but the reply is lost and {who} takes it for a failure",
}
_QUEUE = {
    "ack": "{who} acknowledges the job",
    "fail": "{who} reports a failure",
    "dead": "{who} is dead: nobody acknowledges the job",
    "give up": "no tries are left: the queue gives the job up",
}


class FailureFound(AssertionError):
    """The claim does not hold. `report` and `schedule` are what the message was made of."""

    def __init__(self, message: str, report: Report, schedule: Schedule | None) -> None:
        super().__init__(message)
        self.report = report
        self.schedule = schedule


async def assert_no_failure(
    lab: FaultLab,
    actors: Sequence[Actor],
    invariant: Callable[[Evidence], Awaitable[str]],
    *,
    faults: int = 1,
    switches: int = 0,
    seed: str | None = None,
    **options: Any,
) -> Report:
    """Explore, and raise FailureFound (an AssertionError) unless every schedule ends "once".

    seed:    run only the schedule of this seed, from the message of an earlier failure.
    options: as for `explore`: rules, provider, limit_schedules, limit_seconds, progress, isolate. An
             exploration that a limit ended early does not establish the claim, so it is a failure too.
    Returns the report. Raises what `explore` raises, and ExplorerError when there was no effect to explore.
    """
    __tracebackhide__ = True
    if seed is not None:
        report = await explore(lab, actors, invariant, faults=0, **{**options, "limit_schedules": 1})
        schedule = await report.replay(seed)
        if schedule.outcome != "once":
            raise FailureFound(in_words(schedule), report, schedule)
        return report
    report = await explore(lab, actors, invariant, faults=faults, switches=switches, **options)
    if report.shortest_failure is not None:
        raise FailureFound(_message(report), report, report.shortest_failure)
    if not report.rows:
        raise ExplorerError(
            "no actor asked a server of the lab for anything, so this claim could not fail; let handlers use "
            f"world.pg_dsn, world.redis_url or world.provider\n{in_words(await report.replay('-'))}"
        )
    if not report.complete:
        raise FailureFound(f"{report.verdict}: raise the limit, or claim less", report, None)
    return report


def in_words(schedule: Schedule) -> str:
    """A schedule as numbered sentences with the virtual time of each."""
    lines = [
        f"{number:3}. {step.at:7.1f} s  {_sentence(schedule, number - 1, step)}"
        for number, step in enumerate(schedule.steps, 1)
    ]
    return "\n".join([f'seed "{schedule.seed}" ends "{schedule.outcome}":', *lines])


def _message(report: Report) -> str:
    failure = report.shortest_failure
    assert failure is not None
    counts = ", ".join(f"{count} {word}" for word, count in report.outcomes.items())
    faults = f"{report.faults} fault{'s' * (report.faults != 1)}"
    switches = f"{report.switches} switch{'es' * (report.switches != 1)}"
    return (
        f'"{failure.outcome}" within {faults} and {switches}; {report.schedules} schedules: {counts}\n'
        f'{in_words(failure)}\nTo run this schedule alone, pass seed="{failure.seed}".'
    )


def _sentence(schedule: Schedule, number: int, step: Step) -> str:
    if step.store != QUEUE:
        answer = f" -> {step.result}" if step.result else ""
        said = _HAPPENS[step.fault].format(who=step.name, effect=step.effect, store=step.store, answer=answer)
        return f"{step.name} wakes up and goes on; {said}" if _wakes(schedule, number) else said
    if step.effect == "deliver":
        return f"the queue delivers the job to {step.name}{_why(schedule, number)}"
    why = f": {step.result}" if step.result else ""
    return _QUEUE.get(step.effect, f"{{who}}: {step.effect}").format(who=step.name) + why


def _wakes(schedule: Schedule, number: int) -> bool:
    step = schedule.steps[number]
    before = [s for s in schedule.steps[:number] if s.name == step.name and s.store != QUEUE]
    return bool(before) and before[-1].fault == "~"


def _why(schedule: Schedule, number: int) -> str:
    """Why a job is delivered again."""
    step = schedule.steps[number]
    if step.delivery == 0:
        return ""
    before = step.actor + "'" * (step.delivery - 1)
    ends = [s.effect for s in schedule.steps[:number] if s.name == before and s.store == QUEUE]
    if "dead" in ends:
        return f", since {before} never acknowledged it"
    if "fail" in ends:
        return f", since {before} failed"
    return f", since the lease of {before} ran out before {before} acknowledged it"
