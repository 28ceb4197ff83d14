"""What stays from schedule to schedule: the loop, the sockets of the proxies, the sessions that are warm."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import shutil
from collections.abc import Collection
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from qlab.testing.explorer.clock import OWNER, ActorsAreQuiet, VirtualLoop
from qlab.testing.explorer.errors import Unresponsive
from qlab.testing.explorer.gate import Delivery, how_it_ends
from qlab.testing.explorer.line import Line
from qlab.testing.explorer.pg_proxy import PgConnection
from qlab.testing.explorer.processes import ForkedDelivery, Nursery, peer
from qlab.testing.explorer.provider_proxy import ProviderConnection, listen_on_loopback
from qlab.testing.explorer.proxy import Connection
from qlab.testing.explorer.redis_proxy import RedisConnection
from qlab.testing.explorer.rules import Actor, DeliveryRules, Provider
from qlab.testing.explorer.servers import FaultLab, Upstream
from qlab.testing.explorer.world import EPOCH, GatedProvider, World
from qlab.testing.provider import PaymentProvider

_TALKATIVE = (
    *("psycopg", "psycopg.transaction", "psycopg.pool", "asyncio"),
    *("qlab", "qlab.worker", "qlab.relay"),
)
_ROUNDS = 20
"""How often a handler is told to end before it is said that it does not."""


class LocalDelivery(Delivery):
    """A delivery that runs in this process: its tasks are its life."""

    task: asyncio.Task[str | None]

    def run(self, handler: Any, world: World) -> None:
        """Begin."""
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        self.task = self.loop.create_task(how_it_ends(handler, world), context=context)

    @property
    def finished(self) -> bool:
        """See Delivery."""
        return self.task.done()

    def failure(self) -> str | None:
        """See Delivery."""
        if self.task.cancelled():
            return "CancelledError: before it began"
        return self.task.result()


class Stage:
    """One exploration's surroundings. `play` is called for each schedule."""

    def __init__(
        self,
        lab: FaultLab,
        actors: tuple[Actor, ...],
        rules: DeliveryRules,
        provider: Provider,
        nursery: Nursery | None,
    ) -> None:
        self.nursery = nursery
        self.lab, self.rules = lab, rules
        self.actors = {actor.name: actor for actor in actors}
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(lambda loop, context: None)  # of the dead nobody collects errors
        self._silence = ActorsAreQuiet()
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(self._silence)
        self.upstream = Upstream(lab)
        self.line = Line(lab, self.upstream, self.loop)
        self.deliveries: list[Delivery] = []
        self._kind = provider
        self.provider = PaymentProvider()
        self._places: dict[str, dict[str, str]] = {}
        self._listeners: list[asyncio.Server] = []
        self._running: dict[str, Delivery] = {}

    def reset(self, redis_used: bool) -> None:
        """Everything as it was before the first delivery. `redis_used`: somebody else will write to it."""
        self.loop.reset()
        self.lab.reset(with_redis=self.upstream.redis_used)
        self.upstream.redis_used = redis_used
        self.upstream.loaded.clear()
        self.deliveries.clear()
        self._running.clear()
        if self.nursery is not None:
            self.nursery.new_folder(self.lab.folder)
        self.provider = PaymentProvider(
            dedupe=self._kind.dedupe, clock=lambda: EPOCH + timedelta(seconds=self.loop.now)
        )

    async def deliver(self, chain: str, number: int) -> Delivery:
        """Start a worker with this delivery of the actor's job."""
        kind = LocalDelivery if self.nursery is None else ForkedDelivery
        delivery = kind(self.loop, self.upstream, self.provider, chain, number)
        where = await self._listen(delivery.name)
        self._running[delivery.name] = delivery
        self.deliveries.append(delivery)
        if isinstance(delivery, ForkedDelivery) and self.nursery is not None:
            given = {**where, "rules": asdict(self.rules), "backoff": self.rules.backoff}
            control = Path(where["provider_socket"]).with_name("control.sock")
            delivery.run(self.nursery, given, control)
        elif isinstance(delivery, LocalDelivery):
            gated = GatedProvider(delivery)
            world = World(lambda: self.loop.now, provider=gated, rules=self.rules, **where)
            delivery.run(self.actors[chain].handler, world)
        return delivery

    async def quiesce(self) -> None:
        """Return when nobody can move by himself. Raises Unresponsive."""
        while True:
            await self.loop.quiesce()
            restless = [one for one in self._forked() if one.restless]
            for one in restless:
                one.ask_for_rest()
            if not restless and not self.line.let_next_go():
                return

    def _forked(self) -> list[ForkedDelivery]:
        return [one for one in self.deliveries if isinstance(one, ForkedDelivery) and not one.finished]

    def next_timer(self, without: Collection[Delivery]) -> float | None:
        """When somebody will wake up by a timer of his own, but for these."""
        timers = [one.next_timer for one in self._forked() if one not in without]
        return min((due for due in [*timers, self.loop.next_timer(without)] if due is not None), default=None)

    def advance(self, seconds: float, frozen: Collection[Delivery]) -> None:
        """Let time pass everywhere."""
        self.loop.advance(seconds, frozen)
        self.lab.advance(seconds, with_redis=self.upstream.redis_used)
        for one in self._forked():
            one.pass_time(seconds, self.loop.now, frozen=one in frozen)

    async def clear(self) -> None:
        """End whoever still lives, and wait until the servers have noticed."""
        for delivery in self.deliveries:
            delivery.crash()
        self.line.let_all_go()
        for _ in range(_ROUNDS):
            await self.quiesce()
            left = [task for delivery in self.deliveries for task in delivery.tasks]
            if not left and not self.loop.inflight:
                return
            for task in left:
                task.cancel()
        raise Unresponsive("a handler goes on after it was cancelled; let CancelledError pass")

    def close(self) -> None:
        """No socket, no session, no loop stays."""
        for name in _TALKATIVE:
            logging.getLogger(name).removeFilter(self._silence)
        for listener in self._listeners:
            listener.close()
        self.upstream.close()
        for _ in range(3):  # transports close in the loop's next rounds
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
        for where in self._places.values():
            shutil.rmtree(Path(where["provider_socket"]).parent, ignore_errors=True)

    async def _listen(self, name: str) -> dict[str, str]:
        """Where this delivery finds its servers, as fields of a World. The sockets are kept."""
        if name not in self._places:
            folder = self.lab.folder / f"actor-{len(self._places)}"
            folder.mkdir()
            kinds = {
                ".s.PGSQL.5432": PgConnection,
                "redis.sock": RedisConnection,
                "provider.sock": ProviderConnection,
            }
            meetings = {file: self._meet(name, kind) for file, kind in kinds.items()}
            if self.nursery is not None:
                meetings["control.sock"] = partial(self._control, name)
            for file, meet in meetings.items():
                self._listeners.append(await asyncio.start_unix_server(meet, folder / file))
                (folder / file).chmod(0o777)  # the folder's name is what an actor of another user knows
            dsn, redis_url = self.lab.actor_urls(folder)
            self._places[name] = {
                "pg_dsn": dsn,
                "redis_url": redis_url,
                "provider_url": "" if self.nursery else await self._listen_on_loopback(name),
                "provider_socket": str(folder / "provider.sock"),
            }
        return self._places[name]

    async def _listen_on_loopback(self, name: str) -> str:
        listener, url = listen_on_loopback()
        meet = self._meet(name, ProviderConnection, tcp=True)
        self._listeners.append(await asyncio.start_server(meet, sock=listener))
        return url

    def _meet(self, name: str, kind: type[Connection], *, tcp: bool = False) -> Any:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if tcp:
                self.loop.grace = 0.001
            delivery = self._running.get(name)
            if delivery is None or delivery.dead or delivery.seen or not _is_itself(delivery, writer):
                writer.transport.abort()
            else:
                await kind(delivery, reader, writer).run()

        return meet

    async def _control(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delivery = self._running.get(name)
        if isinstance(delivery, ForkedDelivery) and _is_itself(delivery, writer):
            await delivery.listen(reader, writer)
        writer.transport.abort()


def _is_itself(delivery: Delivery, writer: asyncio.StreamWriter) -> bool:
    """Not a survivor of an earlier schedule at the other end of the socket."""
    pid = peer(writer)
    return not isinstance(delivery, ForkedDelivery) or pid is None or pid == delivery.pid
