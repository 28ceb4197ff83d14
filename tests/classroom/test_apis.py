"""Services of a lesson: real processes that answer, are killed, replaced, and go with the lab."""

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest

from qlab.classroom.apis import start_api, until_said
from qlab.classroom.lab import Lab
from qlab.classroom.processes import LabError
from qlab.classroom.spike import post_orders

API = """
import asyncio, os
from qlab.classroom.inline import serve

async def place_order(order_id, order):
    print("received", flush=True)
    await asyncio.sleep(float(os.environ.get("SLOW", "0")))
    if order["quantity"] != 2:
        raise RuntimeError("no paper")
    return {"order": order_id, "mood": os.environ.get("MOOD")}

app = serve(place_order)
"""


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    lab = await Lab.open("98", postgres=False)
    lab.write_worker("shop.py", API)
    try:
        yield lab
    finally:
        await lab.close()


async def test_a_service_answers_and_starting_it_again_replaces_it(lab: Lab) -> None:
    first = await start_api(lab, "shop:app", MOOD="fine")
    (answer,) = await post_orders(first.url, 1)
    assert (answer.status, answer.body["mood"]) == (201, "fine")
    second = await start_api(lab, "shop:app", MOOD="better")
    assert not first.alive
    (answer,) = await post_orders(second.url, 1)
    assert answer.body["mood"] == "better"


async def test_a_killed_service_leaves_its_client_without_an_answer(lab: Lab) -> None:
    api = await start_api(lab, "shop:app", SLOW="60")
    asking = asyncio.create_task(post_orders(api.url, 1))
    await until_said(api, "received")
    api.kill()
    assert [answer.status for answer in await asking] == [0]


async def test_a_client_that_does_not_wait_gets_status_0(lab: Lab) -> None:
    api = await start_api(lab, "shop:app", SLOW="60")
    answers = await post_orders(api.url, 2, timeout=0.2)
    assert [answer.status for answer in answers] == [0, 0]


async def test_services_end_with_the_lab_and_at_an_interrupt(lab: Lab) -> None:
    one, two = await start_api(lab, "shop:app", "ONE"), await start_api(lab, "shop:app", "TWO")
    processes = [psutil.Process(service.pid) for service in (one, two)]
    await lab.stop_workers()
    assert one.alive
    lab.end_workers()
    await one.exited()
    third = await start_api(lab, "shop:app", "ONE")
    processes.append(psutil.Process(third.pid))
    await lab.close()
    assert psutil.wait_procs(processes, timeout=10)[1] == []


async def test_a_service_that_does_not_come_up_says_why(lab: Lab) -> None:
    with pytest.raises(LabError, match="API") as caught:
        await start_api(lab, "nowhere:app")
    assert "nowhere" in str(caught.value)
    with pytest.raises(LabError, match="Tên làn"):
        await start_api(lab, "shop:app", "no such name")
    await lab.close()
    with pytest.raises(LabError, match="đã đóng"):
        await start_api(lab, "shop:app")
