"""The shop of lesson 05: what it counts, and the pictures and the race that are made from it."""

from collections.abc import AsyncIterator
from xml.etree import ElementTree

import pytest

from qlab import Queue
from qlab.classroom.outbox_picture import OutboxPicture
from qlab.classroom.processes import LabError
from qlab.classroom.shop import Row, Shop
from qlab.classroom.two_relays import picture, two_relays
from qlab.classroom.wrong.relaying import relay_all_or_nothing
from qlab.postgres.outbox import Message
from qlab.postgres.relay import Relay


@pytest.fixture
def environment(pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QLAB_PG_DSN", pg_dsn)


@pytest.fixture
async def shop(environment: None, redis_url: str, prefix: str) -> AsyncIterator[Shop]:
    async with Queue("mails", redis_url, prefix=prefix) as queue:
        yield await Shop.open(queue)


async def relay_once(shop: Shop) -> None:
    async def publish(message: Message) -> None:
        await shop.queue.add(message.topic, message.payload, job_id=message.job_id)

    async with await shop.connect() as conn:
        await Relay(conn, publish, listen=False).run_once()


async def test_orders_and_messages_are_written_together_and_counted(shop: Shop) -> None:
    assert await shop.write(2) == [1, 2]
    counted = await shop.count("orders", "messages", "published", "letters", "jobs")
    assert counted == {"orders": 2, "messages": 2, "published": 0, "letters": 0, "jobs": 0}
    await relay_once(shop)
    assert await shop.until(published=2, jobs=2) == {"published": 2, "jobs": 2}
    assert await shop.rows() == [Row(1, True, True), Row(2, True, True)]
    await shop.reset()
    assert await shop.count("orders", "messages", "jobs") == {"orders": 0, "messages": 0, "jobs": 0}
    assert await shop.write(1) == [1]


async def test_a_count_that_never_comes_is_one_sentence(shop: Shop) -> None:
    with pytest.raises(LabError, match="'orders': 0"):
        await shop.until(orders=1, within=0.1)


async def test_it_waits_until_nobody_has_a_transaction_open(shop: Shop) -> None:
    async with await shop.connect() as conn:
        async with conn.transaction():
            await conn.execute("SELECT 1")
            with pytest.raises(TimeoutError):
                await shop.settled(within=0.1)
        await shop.settled()


async def test_without_postgresql_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QLAB_PG_DSN")
    with pytest.raises(LabError, match="make doctor"):
        await Shop.open(Queue("mails"))


async def test_the_relay_reads_only_rows_that_are_due_however_many_old_ones_there_are(shop: Shop) -> None:
    await shop.write_old(20_000, days=1)
    await shop.write(10)
    assert await shop.explain_relay() == {"index": "outbox_live", "rows": 10}


async def test_old_rows_are_what_they_are_said_to_be(shop: Shop) -> None:
    await shop.write_old(2, days=8)
    await shop.write_old(1, days=30, published=False)
    async with await shop.connect() as conn:
        ages = await conn.execute("SELECT extract(day FROM now() - created_at)::int FROM outbox ORDER BY id")
        assert await ages.fetchall() == [(8,), (8,), (30,)]
    assert await shop.count("published") == {"published": 2}


@pytest.mark.parametrize("skip_locked", [True, False])
async def test_two_relays_never_take_one_row_twice_and_wait_only_without_skip_locked(
    shop: Shop, skip_locked: bool
) -> None:
    await shop.write(10)
    race = await two_relays(shop, skip_locked=skip_locked, hold=0.05)
    assert race.facts == {
        "relay_1": [1, 2, 3, 4, 5],
        "relay_2": [6, 7, 8, 9, 10],
        "second_waited": not skip_locked,
        "committed_first": 2 if skip_locked else 1,
    }
    assert await shop.count("published") == {"published": 10}
    drawn = picture("Ai chờ ai", race)
    assert ("chờ khoá của relay 1" in " ".join(drawn.sentences())) is not skip_locked


async def test_one_bad_row_undoes_every_mark_of_the_wrong_relay(shop: Shop) -> None:
    sent = []

    async def publish(message: Message) -> None:
        if message.id == 2:
            raise RuntimeError("bad")
        sent.append(message.id)

    await shop.write(3)
    async with await shop.connect() as conn:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="bad"):
                await relay_all_or_nothing(conn, publish)
        assert (sent, await shop.count("published")) == ([1, 1], {"published": 0})
        await conn.execute("DELETE FROM outbox WHERE id = 2")
        assert await relay_all_or_nothing(conn, publish) == 2
    assert await shop.count("published") == {"published": 2}


def test_the_picture_of_the_outbox_says_what_it_shows() -> None:
    before = [Row(1, False, True), Row(2, False, False)]
    drawn = OutboxPicture("Relay <chết>", {"lúc chết": before, "sau": [Row(1, True, True)]})
    first, second = drawn.sentences()
    assert first == ("lúc chết: 2 hàng; đã đánh dấu published: không hàng nào; có job trong hàng đợi: 1.")
    assert second.startswith("sau: 1 hàng; đã đánh dấu published: 1;")
    root = ElementTree.fromstring(drawn.svg())
    words = [node.text for node in root.iter() if node.text]
    assert "Relay <chết>" in words
    assert f"{first} {second}" in words
    assert words.count("outbox-1") == 2
    assert "outbox-2" not in words
    assert drawn.svg() == drawn.svg()
    with pytest.raises(ValueError, match="at least one"):
        OutboxPicture("nothing", {"x": []})
