"""What stays from schedule to schedule: the loop, the sockets of the proxies, the sessions that are warm."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import shutil
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

from qlab.testing.explorer.clock import OWNER, SilentWhenDead, VirtualLoop
from qlab.testing.explorer.errors import Unresponsive
from qlab.testing.explorer.gate import Delivery
from qlab.testing.explorer.line import Line
from qlab.testing.explorer.pg_proxy import PgConnection
from qlab.testing.explorer.provider_proxy import ProviderConnection, listen_on_loopback
from qlab.testing.explorer.proxy import Connection
from qlab.testing.explorer.redis_proxy import RedisConnection
from qlab.testing.explorer.rules import Actor, DeliveryRules, Provider
from qlab.testing.explorer.servers import FaultLab, Upstream
from qlab.testing.explorer.world import EPOCH, GatedProvider, World
from qlab.testing.provider import PaymentProvider

_TALKATIVE = ("psycopg", "psycopg.pool", "asyncio", "qlab", "qlab.worker", "qlab.relay")
_ROUNDS = 20
"""How often a handler is told to end before it is said that it does not."""


class LocalDelivery(Delivery):
    """A delivery that runs in this process: its tasks are its life."""

    task: asyncio.Task[None]

    def run(self, handler: Any, world: World) -> None:
        """Begin."""
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        self.task = self.loop.create_task(_guarded(handler, world), context=context)

    @property
    def finished(self) -> bool:
        """See Delivery."""
        return self.task.done()

    def failure(self) -> BaseException | None:
        """See Delivery."""
        if self.task.cancelled():
            return asyncio.CancelledError("the handler was cancelled")
        return self.task.exception()


async def _guarded(handler: Any, world: World) -> None:
    try:
        await handler(world)
    except (SystemExit, KeyboardInterrupt) as error:  # these would end the loop, not the job
        raise RuntimeError(f"the handler raised {error!r}") from None


class Stage:
    """One exploration's surroundings. `play` is called for each schedule."""

    def __init__(
        self, lab: FaultLab, actors: tuple[Actor, ...], rules: DeliveryRules, provider: Provider
    ) -> None:
        self.lab, self.rules = lab, rules
        self.actors = {actor.name: actor for actor in actors}
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(
            lambda loop, context: None
        )  # dead actors leave errors nobody collects
        self._silence = SilentWhenDead()
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(self._silence)
        self.upstream = Upstream(lab)
        self.line = Line(lab, self.upstream, self.loop)
        self.deliveries: list[Delivery] = []
        self._kind = provider
        self.provider = PaymentProvider()
        self._places: dict[str, tuple[Path, str]] = {}
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
        self.provider = PaymentProvider(
            dedupe=self._kind.dedupe, clock=lambda: EPOCH + timedelta(seconds=self.loop.now)
        )

    async def deliver(self, chain: str, number: int) -> Delivery:
        """Start a worker with this delivery of the actor's job."""
        delivery = LocalDelivery(self.loop, self.upstream, self.provider, chain, number)
        folder, url = await self._listen(delivery.name)
        self._running[delivery.name] = delivery
        self.deliveries.append(delivery)
        dsn, redis_url = self.lab.actor_urls(folder)
        gated = GatedProvider(delivery)
        socket = str(folder / "provider.sock")
        world = World(lambda: self.loop.now, dsn, redis_url, gated, url, socket, self.rules)
        delivery.run(self.actors[chain].handler, world)
        return delivery

    async def quiesce(self) -> None:
        """Return when nobody can move by himself."""
        await self.loop.quiesce()
        while self.line.let_next_go():
            await self.loop.quiesce()

    def advance(self, seconds: float, frozen: Collection[Delivery]) -> None:
        """Let time pass everywhere."""
        self.loop.advance(seconds, frozen)
        self.lab.advance(seconds, with_redis=self.upstream.redis_used)

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
        for folder, _ in self._places.values():
            shutil.rmtree(folder, ignore_errors=True)

    async def _listen(self, name: str) -> tuple[Path, str]:
        """Folder with the sockets of this delivery, and the URL of its provider. They are kept."""
        if name not in self._places:
            folder = self.lab.folder / f"actor-{len(self._places)}"
            folder.mkdir()
            kinds = {
                ".s.PGSQL.5432": PgConnection,
                "redis.sock": RedisConnection,
                "provider.sock": ProviderConnection,
            }
            for file, kind in kinds.items():
                server = await asyncio.start_unix_server(self._meet(name, kind), folder / file)
                self._listeners.append(server)
            listener, url = listen_on_loopback()
            self._listeners.append(
                await asyncio.start_server(self._meet(name, ProviderConnection, tcp=True), sock=listener)
            )
            self._places[name] = folder, url
        return self._places[name]

    def _meet(self, name: str, kind: type[Connection], *, tcp: bool = False) -> Any:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if tcp:
                self.loop.grace = 0.001
            delivery = self._running.get(name)
            if delivery is None or delivery.dead or delivery.seen:
                writer.transport.abort()
            else:
                await kind(delivery, reader, writer).run()

        return meet
