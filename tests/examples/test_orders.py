"""The orders service over real HTTP, with real processes and servers."""

import asyncio
import signal
import socket

import psutil
import psycopg
import pytest

from examples.orders import store
from qlab.embedded import start
from tests.examples.service import Service, all_gone

BOOKS = {"item": "book", "quantity": 2}
RECEIPT = {"item": "book", "quantity": 2, "total": 240_000}


@pytest.fixture
def run_service(tmp_path, pg_dsn, redis_url, prefix):
    """Start the service, or a part of it, on the servers of the test."""
    services = []

    def run(*words, **environment):
        mine = {"QLAB_PG_DSN": pg_dsn, "QLAB_REDIS_URL": redis_url, "QLAB_PREFIX": prefix}
        mine |= {"QLAB_REDIS_KIND": "external", "QLAB_PG_KIND": "external", "ORDERS_WORK": "0.3"}
        log = tmp_path / f"service-{len(services)}.log"
        services.append(Service(log, *words, **(mine | environment)))
        return services[-1]

    yield run
    for service in services:
        service.clean_up()


async def poll(client, where, wanted):
    """Ask until the order has this status; return all that was answered."""
    answers = []
    async with asyncio.timeout(20):
        while not answers or answers[-1]["status"] != wanted:
            reply = await client.get(where)
            assert reply.status_code == 200, reply.text
            answers.append(reply.json())
            await asyncio.sleep(0.02)
    return answers


async def test_an_order_is_accepted_then_pending_then_done(run_service, pg_dsn):
    service = run_service("--port", "0")
    async with service.client() as client:
        reply = await client.post("/orders", json=BOOKS)
        assert reply.status_code == 202
        job = reply.json()["job"]
        assert reply.json() == {"job": job, "status": "pending"}
        assert reply.headers["location"] == f"/orders/{job}"
        answers = await poll(client, reply.headers["location"], "done")
    assert answers[0] == {"job": job, "status": "pending"}
    assert answers[-1] == {"job": job, "status": "done", "receipt": RECEIPT}
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        assert await store.find(connection, job) == RECEIPT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_both_and_leaves_nothing_behind(run_service, number):
    service = run_service("--port", "0")
    service.until_said("is connected to")
    async with service.client() as client:
        assert (await client.post("/orders", json=BOOKS)).status_code == 202
    parts = service.parts()
    assert len(parts) >= 3
    assert service.end(number) == 0, service.said
    assert all_gone(parts)
    assert "Traceback" not in service.said


async def test_an_order_that_is_being_made_is_finished_first(run_service, pg_dsn):
    service = run_service("--port", "0", ORDERS_WORK="1.0")
    service.until_said("is connected to")
    async with service.client() as client:
        job = (await client.post("/orders", json=BOOKS)).json()["job"]
    assert service.end() == 0, service.said
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        assert await store.find(connection, job) == RECEIPT


async def test_when_one_part_dies_the_other_ends_and_the_status_says_so(run_service):
    service = run_service("--port", "0")
    service.until_said("is connected to")
    service.until_said("running on")
    parts = service.parts()
    worker = next(part for part in parts if "worker" in part.cmdline())
    worker.kill()
    assert service.process.wait(20) == 1
    assert all_gone(parts)


async def test_parts_do_not_outlive_a_killed_parent(run_service):
    if not psutil.LINUX:
        return  # the tie of the parts is one of the Linux kernel
    service = run_service("--port", "0")
    service.until_said("is connected to")
    service.until_said("running on")
    parts = service.parts()
    service.end(signal.SIGKILL)
    assert all_gone(parts)


BAD_ORDERS = [
    (b"{", "the body is not JSON"),
    (b"\xff", "the body is not JSON"),
    (b"[" * 5000, "the body is not JSON"),
    (b"[]", "send a JSON object"),
    (b"{}", "item must be one of book, lamp, pen"),
    (b'{"item": "boat", "quantity": 1}', "item must be one of book, lamp, pen"),
    (b'{"item": ["book"], "quantity": 1}', "item must be one of book, lamp, pen"),
    (b'{"item": "book"}', "quantity must be a whole number from 1 to 100"),
    (b'{"item": "book", "quantity": 0}', "quantity must be a whole number from 1 to 100"),
    (b'{"item": "book", "quantity": 1.5}', "quantity must be a whole number from 1 to 100"),
    (b'{"item": "book", "quantity": true}', "quantity must be a whole number from 1 to 100"),
    (b" " * 20_000, "longer than 10000 bytes"),
]
UNKNOWN = ["order-0123456789abcdef", "7", "a:b", "%00", "order-\u00e9"]


async def test_a_bad_order_gets_one_clear_sentence(api):
    for body, says in BAD_ORDERS:
        reply = await api.post("/orders", content=body)
        assert reply.status_code == 400, (body, reply.text)
        assert says in reply.json()["error"], body


async def test_an_order_that_nobody_placed_is_not_found(api):
    for order in UNKNOWN:
        reply = await api.get(f"/orders/{order}")
        assert (reply.status_code, reply.json()) == (404, {"error": "there is no such order"}), order


@pytest.fixture
async def api(run_service, pg_dsn):
    """A client of the API alone."""
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        await store.create_tables(connection)
    async with run_service("api", "--port", "0").client() as client:
        yield client


async def test_s71_3_redis_that_is_gone_is_a_503_at_once_and_back_again_a_202(run_service, pg_dsn):
    with start(postgres=False, redis="valkey") as servers:
        service = run_service("api", "--port", "0", QLAB_REDIS_URL=servers.redis_url)
        async with service.client() as client:
            assert (await client.post("/orders", json=BOOKS)).status_code == 202
            servers.close()
            reply = await client.post("/orders", json=BOOKS)
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "1"
    assert "try again" in reply.json()["error"]
    assert "Traceback" not in service.said


async def test_s71_2_redis_that_never_answers_is_a_503_within_the_clients_patience(run_service):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        service = run_service("api", "--port", "0", QLAB_REDIS_URL=url)
        async with service.client() as client:  # gives up after three seconds
            reply = await client.post("/orders", json=BOOKS)
    assert reply.status_code == 503


async def test_a_database_that_is_away_is_a_503_for_who_asks_but_orders_are_taken(run_service):
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    service = run_service("api", "--port", "0", QLAB_PG_DSN=nowhere)
    async with service.client() as client:
        placed = await client.post("/orders", json=BOOKS)
        assert placed.status_code == 202
        assert (await client.get(placed.headers["location"])).status_code == 503


async def test_a_second_receipt_of_one_order_changes_nothing(pg_dsn):
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        await store.create_tables(connection)
        await store.create_tables(connection)
        assert await store.save(connection, "order-1", RECEIPT)
        assert not await store.save(connection, "order-1", RECEIPT | {"total": 1})
        assert await store.find(connection, "order-1") == RECEIPT


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"ORDERS_WORK": "soon"}, "ORDERS_WORK is 'soon': write a number"),
        ({"ORDERS_LOCK": "0"}, "ORDERS_LOCK is '0': write a number of at least 0.1"),
        ({"ORDERS_CONCURRENCY": "nan"}, "ORDERS_CONCURRENCY is 'nan'"),
        ({"QLAB_PG_DSN": ""}, "QLAB_PG_DSN is not set"),
        ({"QLAB_PG_DSN": "postgresql://nobody@127.0.0.1:1/none"}, "QLAB_PG_DSN names"),
    ],
)
def test_a_setting_that_makes_no_sense_is_one_sentence(run_service, environment, says):
    part = "api" if environment.get("QLAB_PG_DSN") == "" else "both"
    service = run_service(part, "--port", "0", **environment)
    assert service.process.wait(20) == 1
    assert says in service.said
    assert "Traceback" not in service.said
