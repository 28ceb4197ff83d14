"""The checks of exercise 4, judged from outside: by rows in the database and requests at the provider."""

import asyncio
from typing import Any

from qlab.classroom.ex04 import TABLE, expire, rows, take_over
from qlab.classroom.grading.scene import Exercise, Scene
from qlab.classroom.grading.verdict import Broken
from qlab.testing import Charge
from qlab.testing.provider import Call

WORKERS = 20
LOST_ERROR = {
    "error": "error_replaced",
    "busy": "error_replaced",
    "lost": "error_replaced",
    "charged": "error_swallowed",
    "skipped": "error_swallowed",
    "None": "error_swallowed",
}
PATIENCE = 2.0  # seconds to wait for a state that a right answer reaches in milliseconds


class ChargeScene(Scene):
    """One check of exercise 4: an order, a provider, a table."""

    @property
    def data(self) -> dict[str, Any]:
        """The payload of the job."""
        return {"order": self.order, "amount": self.amount}

    async def handle(self, answer: Any, job: str) -> str:
        """Call the handler; "charged", "skipped", "busy", "lost", a provider status, or the error's name."""
        reply = await answer.call(job=job, data=self.data)
        if "error" not in reply:
            return str(reply["value"])[:100]
        error = reply["error"]
        self.last_error = f"{error['classes'][0]}: {error['text']} ({error['where']})"
        for name, word in (("KeyBusy", "busy"), ("ClaimLost", "lost")):
            if name in error["classes"]:
                return word
        if "ProviderError" in error["classes"]:
            return str(error["text"].split(" ")[0])
        for name, code in (("NotImplementedError", "unanswered"), ("MemoryError", "memory")):
            if name in error["classes"]:
                raise Broken(code, where=error["where"])
        return "error"

    def never_called(self) -> Broken:
        """The provider got no request: because of an error of the answer, or for no reason."""
        return Broken("exception" if self.last_error else "nothing_charged", error=self.last_error, calls=0)

    async def row(self) -> dict[str, Any] | None:
        """The row of this check's order, or the only row there is."""
        found = await rows(self.database.conn)
        mine = [row for row in found if self.order in row["key"]]
        return mine[0] if len(mine) == 1 else found[0] if len(found) == 1 else None

    async def lock_state(self) -> str:
        """What others see while the provider is being called: "claimed", "uncommitted" or "none"."""
        if any(row["status"] == "PENDING" for row in await rows(self.database.conn)):
            return "claimed"
        return "uncommitted" if await self.database.holds_lock() else "none"

    async def must_be_claimed(self, states: list[str]) -> None:
        """Raise Broken unless others saw a committed PENDING row when the provider was called."""
        if not self.provider.calls:
            raise self.never_called()
        if states != ["claimed"]:
            code = "uncommitted" if "uncommitted" in states else "no_pending_row"
            raise Broken(code, rows=await self.shown())

    async def shown(self) -> list[dict[str, Any]]:
        """The rows as evidence."""
        return [{"key": r["key"], "status": r["status"]} for r in (await rows(self.database.conn))[:5]]

    def charges(self) -> list[Charge]:
        """What the customer paid for this order."""
        return self.provider.charges

    def keys(self) -> list[str | None]:
        """The keys that the provider was given."""
        return [call.key for call in self.provider.requests]

    def same_key(self, jobs: list[str]) -> None:
        """Raise Broken unless every request had the same key."""
        keys = self.keys()
        if None in keys:
            raise Broken("no_provider_key", keys=keys, charges=len(self.charges()))
        if len(set(keys)) > 1:
            by_job = all(any(job in str(key) for job in jobs) for key in keys)
            raise Broken("job_id_key" if by_job else "random_key", keys=keys, charges=len(self.charges()))

    async def finished(self) -> None:
        """Raise Broken unless the row is DONE with the charge, under the business key."""
        charge = self.charges()[0]
        if (charge.order, charge.amount) != (self.order, self.amount):
            raise Broken("wrong_parameters", sent=[charge.order, charge.amount], expected=self.data)
        row = await self.row()
        if row is None or row["status"] != "DONE":
            raise Broken("not_done", rows=await self.shown())
        if row["key"] != f"charge:{self.order}":
            raise Broken("wrong_key", key=row["key"], expected=f"charge:{self.order}")
        if charge.id not in str(row["result"]):
            raise Broken("no_result", result=row["result"], charge=charge.id)


def expect(scene: ChargeScene, answer: str, wanted: str, **mistakes: str) -> None:
    """Raise Broken unless the handler answered as wanted; `mistakes` name the wrong answers."""
    if answer != wanted:
        if answer == "error" and not scene.provider.calls:
            raise scene.never_called()
        code = mistakes.get(answer, "exception" if answer == "error" else "wrong_answer")
        raise Broken(
            code, answer=answer, expected=wanted, error=scene.last_error, charges=len(scene.charges())
        )


async def twice(scene: ChargeScene) -> None:
    """The same order comes again, under another job id, in another process."""
    jobs = [scene.job_id(), scene.job_id()]
    first = await scene.handle(await scene.spawn(), jobs[0])
    if not scene.charges():
        expect(scene, first, "charged")
        raise Broken("nothing_charged", answer=first)
    second = await scene.handle(await scene.spawn(), jobs[1])
    if len(scene.provider.requests) > 1:
        scene.same_key(jobs)
        raise Broken("state_in_memory" if not await scene.row() else "not_done", calls=scene.provider.calls)
    expect(scene, first, "charged")
    expect(scene, second, "skipped", busy="not_done")
    await scene.finished()


async def transient(scene: ChargeScene) -> None:
    """The provider fails once, after the claim; the queue tries again at once."""
    answer, job = await scene.spawn(), scene.job_id()
    scene.provider.fail_next(1, status=503)
    first = await scene.handle(answer, job)
    expect(scene, first, "503", **LOST_ERROR)
    second = await scene.handle(answer, job)
    expect(scene, second, "charged", skipped="key_first", busy="no_release")
    third = await scene.handle(answer, job)
    if len(scene.charges()) > 1:
        scene.same_key([job])
    expect(scene, third, "skipped", busy="not_done", charged="not_done")
    await scene.finished()


async def race(scene: ChargeScene) -> None:
    """Twenty workers in two processes want the same order; nobody gets to write before all have come."""
    answers = [await scene.spawn(connections=10), await scene.spawn(connections=10)]
    arrived, go = asyncio.Event(), asyncio.Event()
    states: list[str] = []

    async def hold(_: Call) -> None:
        if not arrived.is_set():
            arrived.set()
            states.append(await scene.lock_state())
        await go.wait()

    scene.provider.on_request = hold
    jobs = [scene.job_id() for _ in range(WORKERS)]
    async with scene.writes_held():
        calls = [scene.task(scene.handle(answers[n % 2], job)) for n, job in enumerate(jobs)]
        await scene.until(scene.database.waiting, at_least=WORKERS, patience=PATIENCE)
    early = await all_but_the_holder(calls)
    go.set()
    results = [await call for call in calls]
    judge_race(scene, results, early, states, jobs)
    await scene.finished()


async def all_but_the_holder(calls: "list[asyncio.Task[str]]") -> list[str]:
    """The answers that came while the first charge was held at the provider."""
    end = asyncio.get_running_loop().time() + PATIENCE
    pending: set[asyncio.Task[str]] = set(calls)
    while len(pending) > 1 and (left := end - asyncio.get_running_loop().time()) > 0:
        _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    return [task.result() for task in calls if task.done()]


def judge_race(
    scene: ChargeScene, results: list[str], early: list[str], states: list[str], jobs: list[str]
) -> None:
    """Raise Broken for what the twenty workers did wrong."""
    counts = {word: results.count(word) for word in sorted(set(results))}
    seen = {"answers": counts, "calls": scene.provider.calls, "charges": len(scene.charges())}
    state = states[0] if states else "none"
    if state == "uncommitted":
        raise Broken("uncommitted", **seen, still_waiting=len(results) - len(early))
    if scene.provider.calls > 1:
        scene.same_key(jobs)
        raise Broken("charge_first" if state == "none" else "check_then_act", **seen)
    if "skipped" in early:
        raise Broken("busy_as_skipped", **seen)
    if not scene.provider.calls:
        raise scene.never_called()
    if not scene.charges():
        raise Broken("nothing_charged", **seen)
    if state == "none":
        raise Broken("no_pending_row", **seen)
    known = sum(counts.get(word, 0) for word in ("charged", "busy", "skipped"))
    if counts.get("charged") != 1 or known != WORKERS:
        raise Broken("exception" if "error" in counts else "wrong_answer", **seen, error=scene.last_error)


async def token(scene: ChargeScene) -> None:
    """A's lock runs out on the way to the provider, B takes the key, then A fails and releases."""
    taken, states = taken_over(scene, "on_request")
    scene.provider.fail_next(1)
    answer, job = await scene.spawn(), scene.job_id()
    first = await scene.handle(answer, job)
    await scene.must_be_claimed(states)
    if await scene.row() != taken[0]:
        raise Broken("release_without_token", answer=first, rows=await scene.shown())
    expect(scene, first, "503", **LOST_ERROR)
    third = await scene.handle(answer, job)
    expect(scene, third, "busy", charged="steals_live_lock", skipped="busy_as_skipped")


async def done(scene: ChargeScene) -> None:
    """A has charged and wakes up late: the key is B's by now. A must not write, nor say that it is done."""
    taken, states = taken_over(scene, "on_reply")
    first = await scene.handle(await scene.spawn(), scene.job_id())
    await scene.must_be_claimed(states)
    if await scene.row() != taken[0]:
        raise Broken("done_without_token", answer=first, rows=await scene.shown())
    if first in ("charged", "skipped", "None"):
        raise Broken("done_ignored", answer=first, rows=await scene.shown())
    expect(scene, first, "lost", error="exception")


def taken_over(scene: ChargeScene, moment: str) -> tuple[list[dict[str, Any] | None], list[str]]:
    """At that moment of the first request B takes every lock.

    The lists get the row as B left it, and what others saw just before.
    """
    taken: list[dict[str, Any] | None] = []
    states: list[str] = []

    async def b_takes_over(_: Call) -> None:
        setattr(scene.provider, moment, None)
        states.append(await scene.lock_state())
        if states == ["claimed"]:
            await take_over(scene.database.conn)
            taken.append(await scene.row())

    setattr(scene.provider, moment, b_takes_over)
    return taken, states


async def crash(scene: ChargeScene) -> None:
    """The process is killed between the charge and DONE; when the lock has run out, another takes over."""
    answer, job = await scene.spawn(), scene.job_id()

    states: list[str] = []

    async def kill(_: Call) -> None:
        scene.provider.on_reply = None
        states.append(await scene.lock_state())
        answer.kill()

    scene.provider.on_reply = kill
    await scene.gone(scene.handle(answer, job), expected=lambda: bool(states))
    if not scene.charges():
        raise scene.never_called()
    await expire(scene.database.conn)
    second = await scene.handle(await scene.spawn(), job)
    if len(scene.charges()) > 1:
        scene.same_key([job])
    if second == "skipped":
        raise Broken("key_first", answer=second, rows=await scene.shown())
    await scene.must_be_claimed(states)
    expect(scene, second, "charged", busy="no_take_over")
    await scene.finished()


EXERCISE = Exercise(
    name="ex04",
    entry="handle_charge",
    stage="qlab.classroom.grading.ex04_stage",
    table="idempotency_key",
    ddl=TABLE,
    scene=ChargeScene,
    checks={
        "twice": twice,
        "transient": transient,
        "race": race,
        "token": token,
        "done": done,
        "crash": crash,
    },
)
