"""Slips of whoever writes the test: each gets a sentence that says what is wrong; no claim passes by it."""

from typing import Any

import psycopg
import pytest

from qlab.testing import (
    Actor,
    Evidence,
    ExplorerError,
    FaultLab,
    Unsupported,
    World,
    assert_no_failure,
    explore,
)
from qlab.testing.explorer.wire import check_sql
from tests.testing.explored import connect


async def insert(world: World) -> None:
    async with await connect(world) as connection:
        await connection.execute("INSERT INTO slip VALUES ('a')")


async def idle(world: World) -> None:
    pass


async def fine(stores: Evidence) -> str:
    return "once"


@pytest.fixture
async def tables(lab: FaultLab) -> FaultLab:
    async def create(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("CREATE TABLE IF NOT EXISTS slip (name text)")

    await lab.install(create)
    return lab


def plain(_: Any) -> str:
    return "once"


A = Actor("A", insert)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"actors": [insert]}, TypeError, r'Actor\("A", handler\), not function'),
        ({"actors": []}, ValueError, "0 actors; pass one or two"),
        ({"actors": [Actor(name, insert) for name in "ABC"]}, ValueError, "3 actors; pass one or two"),
        ({"actors": [Actor("A", plain)]}, Unsupported, "handler of A is a plain function"),  # type: ignore[arg-type]
        ({"invariant": plain}, TypeError, "the invariant must be an async function"),
        ({"invariant": None}, TypeError, "async functions of the stores"),
        ({"setup": plain}, TypeError, "setup must be an async function"),
        ({"lab": "here"}, TypeError, "a FaultLab, not str"),
        ({"faults": "1"}, ValueError, "faults can be 0 to 3"),
        ({"switches": 1.5}, ValueError, "switches 0 to 5"),
        ({"limit_schedules": 0}, ValueError, "limit_schedules is 0"),
        ({"limit_seconds": -1}, ValueError, "limit_seconds is -1"),
        ({"patience": 0}, ValueError, "patience is 0"),
        ({"rules": {"lease": 3}}, TypeError, "rules is a DeliveryRules, not dict"),
        ({"provider": True}, TypeError, "provider is a Provider, not bool"),
    ],
)
async def test_wrong_kinds_are_named(
    tables: FaultLab, given: dict[str, Any], error: type[Exception], says: str
) -> None:
    arguments: dict[str, Any] = {"lab": tables, "actors": [A], "invariant": fine, **given}
    with pytest.raises(error, match=says):
        await explore(arguments.pop("lab"), arguments.pop("actors"), arguments.pop("invariant"), **arguments)


async def test_a_plain_function_cannot_install(lab: FaultLab) -> None:
    with pytest.raises(TypeError, match="create must be an async function"):
        await lab.install(plain)  # type: ignore[arg-type]


async def test_an_error_of_the_invariant_says_after_which_schedule(tables: FaultLab) -> None:
    async def broken(stores: Evidence) -> str:
        await stores.rows("SELECT * FROM nowhere")
        return "once"

    with pytest.raises(psycopg.errors.UndefinedTable) as caught:
        await explore(tables, [A], broken)
    (note,) = caught.value.__notes__
    assert "raised by the invariant" in note
    assert "INSERT slip" in note


async def test_a_claim_about_handlers_without_effects_is_none(tables: FaultLab) -> None:
    """They may go around the lab, or fail before they begin: the claim would hold whatever they do."""

    async def elsewhere(world: World) -> None:
        raise TypeError("Queue() got an unexpected keyword argument 'redis_url'")

    with pytest.raises(ExplorerError, match="could not fail"):
        await assert_no_failure(tables, [Actor("A", idle)], fine)
    with pytest.raises(ExplorerError, match=r"A reports a failure: TypeError: .*unexpected keyword"):
        await assert_no_failure(tables, [Actor("A", elsewhere)], fine)


@pytest.mark.parametrize(
    ("seed", "says"),
    [("A9>", "10 moves, but all is over after 1"), ("B0>", "move 1 cannot be 'B>' this time, only A")],
)
async def test_a_seed_that_does_not_happen_is_no_success(tables: FaultLab, seed: str, says: str) -> None:
    with pytest.raises(ExplorerError, match=says):
        await assert_no_failure(tables, [A], fine, seed=seed)


def test_the_time_of_day_is_the_real_clock() -> None:
    with pytest.raises(Unsupported, match="TIMEOFDAY reads the real clock"):
        check_sql("INSERT INTO slip SELECT timeofday()")
    check_sql("INSERT INTO slip SELECT 'timeofday'")
