"""Two relays on one outbox, the second asking while the first one holds its rows: who waits, who gets what.

    race = await two_relays(shop, skip_locked=False)
    race.facts      # {"relay_1": [1, 2, 3, 4, 5], "relay_2": [6, 7, 8, 9, 10], "second_waited": True, ...}

Two real connections. That the second one waits is not guessed from a clock: the server is asked who blocks
whom (`pg_blocking_pids`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from qlab.classroom.lanes import Lanes, Span
from qlab.classroom.shop import Connection, Shop
from qlab.classroom.texts import text

TAKE = "SELECT id FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT %s FOR UPDATE"
MARK = "UPDATE outbox SET published_at = now() WHERE id = ANY(%s)"


@dataclass
class Turn:
    """One relay's pass: when it asked for rows, got them and committed (seconds), and which they were."""

    asked: float = 0.0
    got: float = 0.0
    done: float = 0.0
    ids: tuple[int, ...] = ()


@dataclass
class Race:
    """Both passes. ``waited``: the server named the first relay as what the second one waits for."""

    skip_locked: bool
    first: Turn
    second: Turn
    waited: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """What is the same in each run: rows, who waited, who committed first."""
        return {
            "relay_1": list(self.first.ids),
            "relay_2": list(self.second.ids),
            "second_waited": self.waited,
            "committed_first": 1 if self.first.done < self.second.done else 2,
        }


async def two_relays(shop: Shop, *, skip_locked: bool, batch: int = 5, hold: float = 0.6) -> Race:
    """Run both. The first keeps its rows for ``hold`` seconds, as if the queue were slow to answer."""
    lock = TAKE + " SKIP LOCKED" if skip_locked else TAKE
    race, holding = Race(skip_locked, Turn(), Turn()), asyncio.Event()
    start = time.monotonic()

    async def relay(turn: Turn, conn: Connection, publish: Any) -> None:
        async with conn.transaction():
            turn.asked = time.monotonic() - start
            rows = await (await conn.execute(lock.encode(), [batch])).fetchall()
            turn.got = time.monotonic() - start
            turn.ids = tuple(row[0] for row in rows)
            await publish()
            await conn.execute(MARK, [list(turn.ids)])
        turn.done = time.monotonic() - start

    async with await shop.connect() as one, await shop.connect() as two, await shop.connect() as watch:

        async def until_known() -> None:
            holding.set()
            while not race.second.done and not race.waited:
                race.waited = await _blocks(watch, two, one)
                await asyncio.sleep(0.01)
            await asyncio.sleep(max(0.0, race.second.asked + hold - (time.monotonic() - start)))

        async def at_once() -> None:
            """Nothing to wait for: the second relay's queue answers at once."""

        first = asyncio.create_task(relay(race.first, one, until_known))
        await holding.wait()
        await asyncio.gather(first, relay(race.second, two, at_once))
    return race


async def _blocks(watch: Connection, waiting: Connection, holder: Connection) -> bool:
    pids = (holder.info.backend_pid, waiting.info.backend_pid)
    row = await (await watch.execute("SELECT %s = ANY(pg_blocking_pids(%s))", pids)).fetchone()
    assert row is not None
    return bool(row[0])


def picture(title: str, *races: Race) -> Lanes:
    """All passes below each other on one axis of seconds; waiting is hatched."""
    spans = []
    for race in races:
        how = text("lanes.with_skip" if race.skip_locked else "lanes.without_skip")
        for number, turn in enumerate((race.first, race.second), 1):
            lane = text("lanes.relay", number=number, how=how)
            if race.waited and number == 2:
                spans.append(Span(lane, turn.asked, turn.got, "wait", text("lanes.waits")))
            ids = f"{turn.ids[0]}–{turn.ids[-1]}"
            spans.append(Span(lane, turn.got, turn.done, "hold", text("lanes.holds", ids=ids)))
    return Lanes(title, spans)
