"""A payment provider for tests and lessons: it keeps the rules of a real one, and it counts.

What it copies from real providers (Stripe documents these):
- the same key within 24 hours returns the first charge and charges nothing;
- the same key with another order or amount is an error (400), nothing is charged;
- a second request while the first with that key is still running gets 409, which is *not* stored: try again;
- a key has at most 255 characters;
- with `stored=True` a failure is kept for its key, as Stripe keeps a 500 once execution began.

Outside the key there is no memory: two calls without a key are two charges.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from qlab.testing.clock import system_clock

KEY_LIFETIME = timedelta(hours=24)
KEY_MAX_LENGTH = 255


class ProviderError(Exception):
    """The provider refused or failed. `status` is the HTTP status that it answers with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message

    @property
    def transient(self) -> bool:
        """True when the same request may succeed later (408, 409, 423, 425, 429 and every 5xx)."""
        return self.status in (408, 409, 423, 425, 429) or self.status >= 500


@dataclass(frozen=True)
class Charge:
    """Money taken once. `at` is aware; `key` is the idempotency key, or None."""

    id: str
    order: str
    amount: int
    key: str | None
    at: datetime


@dataclass
class Call:
    """One request as the provider saw it. `status` is None while it runs, and for ever if the caller left."""

    order: str
    amount: int
    key: str | None
    status: int | None = None


@dataclass
class _Memory:
    """What is remembered under one key."""

    order: str
    amount: int
    since: datetime
    outcome: "Charge | ProviderError | None" = None  # None: still running


@dataclass
class _Failure:
    """Failures still to be given out by `fail_next`."""

    left: int
    status: int
    after: bool
    stored: bool


@dataclass
class PaymentProvider:
    """The stub itself. Call `charge()` in process, or `serve()` it over HTTP for other processes.

    dedupe: False forgets keys at once, as a provider without idempotency keys does.
    delay:  seconds that a charge takes before the money moves.
    clock:  callable that returns an aware datetime (tests pass a ManualClock).
    """

    dedupe: bool = True
    delay: float = 0.0
    clock: Callable[[], datetime] | None = None
    charges: list[Charge] = field(default_factory=list, init=False)
    requests: list[Call] = field(default_factory=list, init=False)
    on_charge: list[Callable[[Charge], object]] = field(default_factory=list, init=False)
    on_request: Callable[[Call], Awaitable[None]] | None = field(default=None, init=False)
    on_reply: Callable[[Call], Awaitable[None]] | None = field(default=None, init=False)
    _memory: dict[str, _Memory] = field(default_factory=dict, init=False, repr=False)
    _failures: list[_Failure] = field(default_factory=list, init=False, repr=False)

    @property
    def calls(self) -> int:
        """Requests received, refused ones included."""
        return len(self.requests)

    def fail_next(self, n: int = 1, status: int = 503, *, after: bool = False, stored: bool = False) -> None:
        """Let the next n charges fail with this status.

        after:  the money moves first, then the answer is lost. A retry with the same key finds the charge.
        stored: the failure is kept for its key for 24 hours, so a retry with the same key gets it again.
        """
        if n < 1:
            raise ValueError(f"n is {n}; pass how many charges should fail, 1 or more")
        if not 400 <= status <= 599:
            raise ValueError(f"status is {status}; pass an error status, 400 to 599")
        if after and stored:
            raise ValueError("a failure is after the charge or stored in its place; pass one of the two")
        self._failures.append(_Failure(n, status, after, stored))

    async def charge(self, order: str, amount: int, key: str | None = None) -> Charge:
        """Take the money once for this key. Raises ProviderError (400, 409 or what `fail_next` set)."""
        call = Call(order, amount, key)
        self.requests.append(call)
        if self.on_request:
            await self.on_request(call)  # the request is on its way: no key is reserved yet
        try:
            charge = await self._answer(call)
            call.status = 201
        except ProviderError as error:
            call.status = error.status
            raise
        finally:
            if self.on_reply and call.status is not None:
                await self.on_reply(call)  # decided; the answer is on its way back
        return charge

    async def _answer(self, call: Call) -> Charge:
        _check(call)
        if call.key is None or not self.dedupe:
            return await self._execute(call, None)
        known = self._recall(call)
        if known is not None:
            return known
        memory = self._memory[call.key] = _Memory(call.order, call.amount, self._now())
        try:
            return await self._execute(call, memory)
        finally:
            if memory.outcome is None:
                del self._memory[call.key]  # nothing happened under this key: the next one starts afresh

    def _recall(self, call: Call) -> Charge | None:
        """The stored outcome of the key; None when the key is unknown or older than 24 hours."""
        memory = self._memory.get(call.key or "")
        if memory is None:
            return None
        if memory.outcome is None:
            raise ProviderError(409, "a request with this idempotency key is still running; try again")
        if self._now() - memory.since >= KEY_LIFETIME:
            return None
        if (memory.order, memory.amount) != (call.order, call.amount):
            raise ProviderError(400, "this idempotency key was used with other parameters")
        if isinstance(memory.outcome, ProviderError):
            raise ProviderError(memory.outcome.status, memory.outcome.message)
        return memory.outcome

    async def _execute(self, call: Call, memory: _Memory | None) -> Charge:
        failure = self._next_failure()
        if self.delay:
            await asyncio.sleep(self.delay)
        if failure and not failure.after:
            error = ProviderError(failure.status, "the provider failed before the charge")
            if failure.stored and memory:
                memory.outcome = error
            raise error
        charge = Charge(f"ch_{len(self.charges) + 1}", call.order, call.amount, call.key, self._now())
        self.charges.append(charge)
        if memory:
            memory.outcome = charge
        for callback in self.on_charge:
            callback(charge)
        if failure:
            raise ProviderError(failure.status, "the provider charged, then the answer was lost")
        return charge

    def _next_failure(self) -> _Failure | None:
        if not self._failures:
            return None
        failure = self._failures[0]
        failure.left -= 1
        if failure.left == 0:
            self._failures.pop(0)
        return failure

    def _now(self) -> datetime:
        now = (self.clock or system_clock)()
        if now.tzinfo is None:
            raise ValueError("the provider's clock returned a time without a zone; return an aware datetime")
        return now

    @asynccontextmanager
    async def serve(self, *, uds: str | None = None) -> AsyncIterator[str]:
        """Serve over HTTP in the running loop; yields the URL (port chosen by the system, 127.0.0.1 only).

        uds: path of a Unix socket to listen on instead; pass the same path to ProviderClient.
        """
        from qlab.testing.provider_http import serve  # starlette and uvicorn are needed only here

        async with serve(self, uds=uds) as url:
            yield url


def _check(call: Call) -> None:
    if not isinstance(call.order, str) or not call.order:
        raise ProviderError(400, "order must be a text that is not empty")
    if type(call.amount) is not int or call.amount <= 0:
        raise ProviderError(400, "amount must be a whole number above zero")
    if call.key is not None and not (isinstance(call.key, str) and 0 < len(call.key) <= KEY_MAX_LENGTH):
        raise ProviderError(400, f"an idempotency key is a text of 1 to {KEY_MAX_LENGTH} characters")
