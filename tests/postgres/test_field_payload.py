"""H19: what arrives behind the outbox, and what an idempotent effect returns, equals what was given."""

from decimal import Decimal
from typing import Any

import pytest

from qlab import Job, Queue, Worker
from qlab.postgres import idempotency as idem
from qlab.postgres import outbox
from qlab.postgres.outbox import Message
from qlab.postgres.relay import Relay
from tests.postgres.conftest import Pool


def deep(levels: int) -> Any:
    return 1 if levels == 0 else {"d": [deep(levels - 1)]}


DATA = {
    "id": 130775545883395173, "big": 9007199254740993, "e": [], "o": {}, "n": None, "f": 0.1, "z": -0.0,
    "s": "é😀", "a:b": 1, "": 2, "deep": deep(30),
}  # fmt: skip
NOT_JSON = [float("nan"), float("inf"), Decimal(1), b"x", {1}, {1: 2}, (1,), object()]


async def test_h19_through_the_outbox_to_the_handler(outbox_pool: Pool, redis_url: str, prefix: str) -> None:
    given = dict(DATA)
    async with outbox_pool.connection() as conn:
        await outbox.write(conn, "t", given)
        given["id"] = 0  # too late: the text is made
    arrived: list[Any] = []

    async def handler(job: Job) -> Any:
        arrived.append(job.data)
        return job.data

    async with Queue("q", redis_url, prefix=prefix) as queue:

        async def publish(message: Message) -> None:
            await queue.add(message.topic, message.payload, job_id=message.job_id)

        assert len((await Relay(outbox_pool, publish).run_once()).published) == 1
        async with Worker("q", handler, redis_url, prefix=prefix):
            job = await queue.get_job("outbox-1")
            assert job is not None
            result = await job.wait_until_finished(timeout=30)
    assert repr(arrived) == repr([DATA])
    assert repr(result) == repr(DATA)


async def test_h19_as_the_result_of_an_idempotent_effect(pool: Pool) -> None:
    async def effect() -> Any:
        return DATA

    outcomes = [await idem.run_once(pool, "k", effect, lock_seconds=60, request=DATA) for _ in range(3)]
    assert [outcome.ran for outcome in outcomes] == [True, False, False]
    assert {repr(outcome.result) for outcome in outcomes} == {repr(DATA)}


@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
async def test_h19_what_is_not_json_is_refused_and_nothing_stored(outbox_pool: Pool, value: Any) -> None:
    async with outbox_pool.connection() as conn:
        with pytest.raises(ValueError, match="payload"):
            await outbox.write(conn, "t", {"v": value})
    assert (await outbox.lag(outbox_pool)).live == 0
