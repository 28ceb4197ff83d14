"""Run a handler once and say how it ended: the only place where an outcome is decided."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from qlab import payload, retention
from qlab.errors import DelayedError, LockLost, PayloadError, RateLimitError, UnrecoverableError
from qlab.job import Job
from qlab.retry import Backoff, Waits, milliseconds

Handler = Callable[[Job], Any]
log = logging.getLogger("qlab.worker")


class Settlement(NamedTuple):
    """How a job ended: the seven words that the script `settle` reads."""

    kind: str
    job_id: str
    claim: int
    attempts: int
    text: str = ""
    stack: str = ""
    extra: str = ""


def check_handler(handler: object) -> Handler:
    """Return the handler if it can be called with a job. Raises TypeError otherwise."""
    if not callable(handler):
        raise TypeError(f"handler must be a function of one job, not {handler!r}")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise TypeError(f"handler {handler!r} has a `yield`: calling it would run nothing of it")
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        raise TypeError(f"handler {handler!r} must take exactly one argument, the job") from None
    except ValueError:
        pass  # a built-in without a signature
    return handler


def runs_on_loop(handler: Handler) -> bool:
    """True for `async def` (also a method, a partial, `__call__`): on the loop; others run in a thread."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def execute(
    job: Job, handler: Handler, threads: ThreadPoolExecutor | None, waits: Waits,
    giving_back: Callable[[], bool] = lambda: False,
) -> Settlement | None:  # fmt: skip
    """Run the handler; `waits` are the worker's backoff functions. None when the job was lost meanwhile:
    then there is nothing left to settle.

    Being cancelled while the worker is `giving_back` its jobs gives this one back; every other way to end,
    also SystemExit or a cancellation of the job's own, is a failure of the job and not of the worker.
    """
    try:
        if (limit := job.record.timeout) is None:
            value = await (_in_thread(job, handler, threads) if threads else handler(job))
        else:
            value = await _within(limit, job, handler, threads)
        text = payload.encode_result(value)
    except PayloadError as error:
        return failure(job, error, waits, final=True)
    except LockLost as error:
        log.warning("%s", error)
        return None
    except asyncio.CancelledError as error:
        return put_back(job) if giving_back() else failure(job, error, waits)
    except UnrecoverableError as error:
        return failure(job, error, waits, final=True)
    except RateLimitError:
        return put_back(job)
    except DelayedError as error:
        try:
            delay = str(milliseconds(error.delay, "delay of DelayedError"))
        except ValueError as wrong:
            return failure(job, wrong, waits)
        return Settlement("delay", job.id, job.claim, job.attempts_made, extra=delay)
    except BaseException as error:
        return failure(job, error, waits)
    keep = job.record.keep_completed or retention.COMPLETED
    return Settlement("completed", job.id, job.claim, job.attempts_made + 1, text, "", keep)


async def _within(limit: int, job: Job, handler: Handler, threads: ThreadPoolExecutor | None) -> Any:
    try:
        async with asyncio.timeout(limit / 1000) as clock:
            value = await (_in_thread(job, handler, threads) if threads else handler(job))
    except TimeoutError:
        if clock.expired():
            if threads:
                log.warning(
                    "job %s passed its limit, but its thread goes on: only a process (sandbox=True) can be "
                    "stopped", job.id,
                )  # fmt: skip
            raise too_long(limit) from None
        raise
    if clock.expired():  # the handler has caught its cancellation; the limit holds all the same
        raise too_long(limit)
    return value


def too_long(limit: int | None) -> TimeoutError:
    """The error of an attempt that passed its limit (ms)."""
    return TimeoutError(f"the attempt took longer than its limit of {(limit or 0) / 1000:g} s")


async def _in_thread(job: Job, handler: Handler, threads: ThreadPoolExecutor) -> Any:
    context = contextvars.copy_context()

    def run() -> tuple[Any, BaseException | None]:
        # StopIteration cannot pass through a future, and SystemExit must not end the thread.
        try:
            return context.run(handler, job), None
        except BaseException as error:
            return None, error

    value, error = await asyncio.get_running_loop().run_in_executor(threads, run)
    if error is not None:
        raise RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
    return await value if isinstance(value, Awaitable) else value


def put_back(job: Job) -> Settlement:
    """The job is returned unfinished; no attempt is counted."""
    return Settlement("put-back", job.id, job.claim, job.attempts_made)


def failure(job: Job, error: BaseException, waits: Waits, *, final: bool = False) -> Settlement:
    """The attempt failed: another one after the backoff if there is one left, else the end."""
    attempts = job.attempts_made + 1
    reason, stack = payload.error_text(error), _stack(error)
    if final or attempts >= job.record.attempts:
        keep = job.record.keep_failed or retention.FAILED
        return Settlement("failed", job.id, job.claim, attempts, reason, stack, keep)
    rule = None
    try:
        rule = Backoff.decode(job.record.backoff) if job.record.backoff else None
        if rule is None and "default" in waits:
            rule = Backoff.custom()
        delay = rule.ask(waits, attempts, error) if rule else 0.0
    except BaseException as wrong:  # a SystemExit, too, ends nothing but this attempt
        delay = rule.max_delay if rule else 0.0
        complaint = f"{payload.error_text(wrong)}; waiting {delay:g} s, the longest that the job allows"
        log.error("job %s: %s", job.id, complaint)
        reason = payload.clean_text(f"{reason} ({complaint})")
    extra = str(milliseconds(delay, "backoff"))
    return Settlement("retrying", job.id, job.claim, attempts, reason, stack, extra)


def _stack(error: BaseException) -> str:
    try:
        return payload.clean_text("".join(traceback.format_exception(error)))
    except Exception:
        return payload.error_text(error)
