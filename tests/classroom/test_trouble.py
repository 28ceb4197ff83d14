"""The server that misbehaves, the service that recovers, and the collection of failures that they make."""

import asyncio
from typing import Any

import httpx
import psycopg
import pytest
import redis
from psycopg_pool import PoolTimeout

from qlab import Backoff, Queue, Worker
from qlab.classroom import trouble
from qlab.classroom.failures import QUICK, STATUSES, collect
from qlab.classroom.narrow_api import NarrowApi
from qlab.classroom.pii import emails_in_redis
from qlab.classroom.trouble import Trouble
from qlab.postgres.errors import KeyBusy


@pytest.fixture
async def failures(pg_dsn: str) -> dict[str, Exception]:
    return await collect(pg_dsn)


async def test_an_answer_that_a_busy_machine_gives_late_is_an_answer(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
):
    answer = trouble._answer

    async def late(*arguments: Any) -> None:
        await asyncio.sleep(1.5 * QUICK)
        await answer(*arguments)

    monkeypatch.setattr(trouble, "_answer", late)
    failures = await collect(pg_dsn)
    assert {type(failures[f"HTTP {status}"]) for status in STATUSES} == {httpx.HTTPStatusError}
    assert type(failures["httpx: read time-out"]) is httpx.ReadTimeout


async def test_the_failures_are_what_their_names_say(failures: dict[str, Exception]):
    for status in STATUSES:
        error = failures[f"HTTP {status}"]
        assert isinstance(error, httpx.HTTPStatusError)
        assert error.response.status_code == status
    kinds = {
        "socket: ECONNRESET": ConnectionResetError,
        "httpx: connection reset": httpx.ReadError,
        "httpx: connection refused": httpx.ConnectError,
        "httpx: read time-out": httpx.ReadTimeout,
        "asyncio.timeout": TimeoutError,
        "HTML instead of JSON": ValueError,
        "foreign key": psycopg.errors.ForeignKeyViolation,
        "not null": psycopg.errors.NotNullViolation,
        "check": psycopg.errors.CheckViolation,
        "not a number": psycopg.DataError,
        "statement time-out": psycopg.errors.QueryCanceled,
        "key held by another": KeyBusy,
        "connection killed": psycopg.errors.AdminShutdown,
        "pool exhausted": PoolTimeout,
        "redis away": redis.ConnectionError,
        "payload: broken JSON": ValueError,
        "payload: field missing": KeyError,
    }
    assert {name: type(failures[name]) for name in kinds if not isinstance(failures[name], kinds[name])} == {}
    assert set(failures) == set(kinds) | {f"HTTP {status}" for status in STATUSES}


async def test_a_drip_passes_the_read_timeout_of_the_client_but_not_a_limit_on_the_whole():
    async with Trouble() as api, httpx.AsyncClient(trust_env=False, timeout=1.0) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get(api.url + "/drip")
        assert len(api.times("/drip")) == 1


async def test_a_query_tells_callers_apart_and_changes_nothing():
    async with Trouble() as api, httpx.AsyncClient(base_url=api.url, trust_env=False) as client:
        assert (await client.get("/status/503?a")).status_code == 503
        assert (await client.get("/status/200?b")).status_code == 200
        assert (await client.get("/nowhere")).status_code == 404
        assert [path for _, path in api.log] == ["/status/503?a", "/status/200?b", "/nowhere"]


async def test_closing_ends_what_hangs():
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        api = await Trouble().start()
        hanging = asyncio.create_task(client.get(api.url + "/hang"))
        while not api.log:
            await asyncio.sleep(0.005)
        await api.close()
        with pytest.raises(httpx.TransportError):
            await hanging


async def test_a_narrow_service_is_down_then_answers_what_it_can():
    api = NarrowApi(capacity=2)
    with pytest.raises(ConnectionError, match="down"):
        await api.send()
    await api.down_for(1)
    api.recover()
    api._since += 1e9  # one bin for all that follow: the clock stands still before it
    answers = await asyncio.gather(*(api.send() for _ in range(5)), return_exceptions=True)
    assert answers.count("sent") == 2
    assert (api.refused, len(api.arrivals), api.failed_while_down) == (3, 5, 1)


async def test_an_address_is_found_in_the_payload_and_in_the_text_of_an_error(redis_url: str, prefix: str):
    async def fail(job):
        raise ValueError(f"no mailbox {job.data.get('hidden', 'an')}@example.com")

    async with Queue("mails", redis_url, prefix=prefix) as queue:
        await queue.add("fat", {"email": "an@example.com"})
        await queue.add("thin", {"user_id": 7})
        client = redis.asyncio.Redis.from_url(redis_url, decode_responses=True)
        assert await emails_in_redis(client, queue) == {"fat": ["data"], "thin": []}
        await queue.drain()
        job = await queue.add("careless", {"user_id": 7}, attempts=2, backoff=Backoff.fixed(60))
        async with Worker("mails", fail, redis_url, prefix=prefix):
            while (await job.refresh()).attempts_made < 1:
                await asyncio.sleep(0.01)
        assert await emails_in_redis(client, queue) == {"careless": ["failed_reason", "stacktrace"]}
        await client.aclose()
        await queue.obliterate()
