"""Carries messages from the outbox to wherever `publish` puts them.

    async def publish(message): await queue.add(message.topic, message.payload, job_id=message.job_id)

    async with Relay(pool, publish): ...        # or, by hand: await Relay(pool, publish).run_once()

One pass is one transaction: lock what is due (SKIP LOCKED, so relays never wait for each other), publish it
row by row, mark what went out, commit. A relay that dies before COMMIT has marked nothing, and its locks end
with its connection. A row that fails is counted, waits longer and longer and is dead after its last attempt.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from qlab import payload
from qlab.postgres.connections import Connection, Source, connection, fetch_all, touched, transaction_on
from qlab.postgres.outbox import TABLE, Message
from qlab.postgres.statements import statement
from qlab.postgres.values import aware, function, whole
from qlab.retry import Backoff, Seconds, seconds
from qlab.tasks import outcome_of

log = logging.getLogger("qlab.relay")

Publish = Callable[[Message], Awaitable[Any]]
_SLACK = 5.0  # seconds beyond the longest pass after which the server ends a silent transaction
_SUSPECTS = 3  # so many errors in a row that look like an outage are taken for one
_RECONNECT = Backoff.exponential(0.5, jitter=0.5, max_delay=30)


@dataclass
class Batch:
    """What one pass did: ids that went out, that failed and wait, and that are dead now.

    `outage` is set when the pass ended early because the other side could not be reached, or was too slow.
    """

    published: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    outage: BaseException | None = None

    @property
    def size(self) -> int:
        """Rows that were tried."""
        return len(self.published) + len(self.failed) + len(self.dead)


class Relay:
    """Publishes outbox rows. Run as many as you like, in any number of processes.

    publish:         coroutine function of one Message; it may see a message again. It must not use `source`.
    batch:           rows of one pass; their locks are held meanwhile.
    attempts:        tries of one row before it is dead; backoff: the wait between two of them.
    poll:            seconds between two looks when nothing is heard; listen: also hear of new rows at once,
                     which keeps one connection for the life of the relay.
    publish_timeout: limit of one call of `publish`; pass_limit: after so many seconds a pass takes no more.
    outage:          errors that may mean "the other side is away", not "this row is bad". Three in a row end
                     the pass. They cost an attempt only if a later row of the same pass went out.
                     `()` counts them like any other.
    Raises ValueError for options that cannot work, such as a pool of one that a listening relay would empty.
    """

    def __init__(
        self,
        source: Source,
        publish: Publish,
        *,
        batch: int = 100,
        attempts: int = 10,
        backoff: Backoff = Backoff.exponential(1.0, jitter=0.5, max_delay=300),  # noqa: B008 - frozen
        poll: Seconds = 1.0,
        listen: bool = True,
        publish_timeout: Seconds = 10.0,
        pass_limit: Seconds = 30.0,
        outage: tuple[type[BaseException], ...] = (ConnectionError,),
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        function(publish, "publish")
        self._source, self._publish = source, publish
        self._batch, self._attempts = whole(batch, "batch"), whole(attempts, "attempts")
        self._backoff, self._outage, self._clock, self._listen = backoff, outage, clock, listen
        self._poll = max(0.01, seconds(poll, "poll"))
        self._publish_timeout = seconds(publish_timeout, "publish_timeout")
        self._pass_limit = seconds(pass_limit, "pass_limit")
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if listen and getattr(source, "max_size", None) == 1:
            raise ValueError(
                "a listening relay keeps one connection, and this pool has only one: give it max_size=2 or "
                "more, or use listen=False"
            )

    async def run_once(self) -> Batch:
        """One pass. Raises NotInstalled, ConnectionUnusable, or psycopg's error when the server is away."""
        async with connection(self._source) as conn:
            return await self._pass(conn)

    async def start(self) -> Self:
        """Work in the background until `close`. Raises RuntimeError if it was started before."""
        if self._task is not None:
            raise RuntimeError("this relay was started before; make a new one")
        self._task = asyncio.create_task(self.run(), name="qlab-relay")
        return self

    async def close(self) -> None:
        """Let the row in hand end, commit what went out, and stop."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self) -> None:
        """Work until `close`. While PostgreSQL or the other side is away it logs that and keeps trying."""
        troubles = 0
        while not self._stop.is_set():
            try:
                if self._listen:
                    await self._work_listening()
                else:
                    await self._work(None)
                troubles = 0
            except Exception as error:  # also a missing table: it may be installed later
                troubles += 1
                log.warning("relay stopped working, will try again: %s", payload.error_text(error))
                await self._pause(_RECONNECT.delay(troubles))

    async def _work_listening(self) -> None:
        async with connection(self._source) as conn:
            await _alone(conn, "outbox_listen")
            try:
                await self._work(conn)
            finally:
                if not conn.closed:
                    await _alone(conn, "outbox_unlisten")

    async def _work(self, conn: Connection | None) -> None:
        """Pass after pass, without a pause as long as there is more to do."""
        while not self._stop.is_set():
            batch = await (self.run_once() if conn is None else self._pass(conn))
            if batch.outage is not None:
                log.warning("cannot publish, will try again: %s", payload.error_text(batch.outage))
                await self._pause(max(self._poll, 0.5))  # not woken by new rows: they would fail too
            elif batch.size < self._batch:
                await self._pause(self._poll, conn)

    async def _pass(self, conn: Connection) -> Batch:
        now = None if self._clock is None else aware(self._clock())
        async with transaction_on(conn, TABLE):
            longest = self._pass_limit + self._publish_timeout + _SLACK
            await fetch_all(conn, "limit_idle", {"seconds": longest})
            rows = await fetch_all(conn, "outbox_take", {"batch": self._batch, "now": now})
            batch = await self._publish_rows(conn, [Message(*row.values()) for row in rows], now)
            if batch.published:
                await touched(conn, "outbox_mark_published", {"ids": batch.published, "now": now})
        return batch

    async def _publish_rows(self, conn: Connection, messages: list[Message], now: datetime | None) -> Batch:
        batch, loop = Batch(), asyncio.get_running_loop()
        until = loop.time() + self._pass_limit
        suspects: list[tuple[Message, BaseException]] = []
        for message in messages:
            if batch.outage or len(suspects) == _SUSPECTS or self._stop.is_set() or loop.time() > until:
                break  # the rows that are left were not touched; their locks end with the transaction
            try:
                async with asyncio.timeout(self._publish_timeout) as limit:
                    # In a task of its own: a cancel of that, which nobody takes back, is not one of ours.
                    if (left := await asyncio.create_task(_published(self._publish, message))) is not None:
                        raise left
                batch.published.append(message.id)
                while suspects:  # the other side is there, so it was their own fault
                    await self._mark_failed(conn, *suspects.pop(0), batch, now, tries=1)
            except self._outage as error:
                suspects.append((message, error))
            except (Exception, asyncio.CancelledError, SystemExit) as error:
                if _is_ours(error):
                    raise
                batch.outage = error if limit.expired() else None
                await self._mark_failed(conn, message, error, batch, now, tries=1)
        for suspect in suspects:
            batch.outage = suspect[1]
            await self._mark_failed(conn, *suspect, batch, now, tries=0)
        return batch

    async def _mark_failed(
        self, conn: Connection, message: Message, error: BaseException, batch: Batch,
        now: datetime | None, *, tries: int,
    ) -> None:  # fmt: skip
        made = message.attempts + tries
        dead = tries > 0 and made >= self._attempts
        delay = -1.0 if dead else self._backoff.delay(max(1, made))
        values = {"id": message.id, "tries": tries, "delay": delay, "now": now}
        await touched(conn, "outbox_mark_failed", {**values, "error": payload.error_text(error)})
        (batch.dead if dead else batch.failed).append(message.id)
        if dead:
            log.error("outbox row %d is dead after %d attempts: %s", message.id, made, error)

    async def _pause(self, duration: float, conn: Connection | None = None) -> None:
        """Until somebody commits a row (if we listen), the time is over, or the relay is closed."""
        stop = asyncio.create_task(self._stop.wait())
        tasks: list[asyncio.Task[Any]] = [stop]
        if conn is not None:
            tasks.append(asyncio.create_task(_heard(conn, duration)))
        done, waiting = await asyncio.wait(tasks, timeout=duration, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in done:
            task.result()


async def _published(publish: Callable[[Message], Any], message: Message) -> SystemExit | None:
    """None when it was; a SystemExit is returned, since out of a task it would end the process."""
    try:
        await outcome_of(publish, message)
    except SystemExit as error:
        return error
    return None


def _is_ours(error: BaseException) -> bool:
    """We are cancelled ourselves, which is something else than a `publish` that is."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def _heard(conn: Connection, duration: float) -> None:
    async for _ in conn.notifies(timeout=duration, stop_after=1):
        pass


async def _alone(conn: Connection, name: str) -> None:
    async with conn.transaction():
        await conn.execute(statement(name))
