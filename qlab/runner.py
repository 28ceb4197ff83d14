"""Run a worker as a process: find it, obey signals, return an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from qlab.worker import Worker

log = logging.getLogger("qlab.worker")


class SpecError(Exception):
    """`module:attribute` does not lead to a worker; the text says what was found and what to do."""


def load(spec: str) -> Worker:
    """The Worker at `module:attribute`; the attribute may also be a function that makes one.

    The current directory is searched first. Raises SpecError.
    """
    module_name, colon, attribute = spec.partition(":")
    if not (re.fullmatch(r"\w+(\.\w+)*", module_name) and colon and attribute):
        raise SpecError(
            f"{spec!r}: write module:attribute, for example tasks:worker for `worker` in tasks.py"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with _refusals_in_a_sentence():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (module_name + ".").startswith(error.name + "."):
            raise
        raise SpecError(f"there is no module {module_name!r} here ({here}) or on the Python path") from None
    if not hasattr(module, attribute):
        raise SpecError(f"module {module_name!r} has no attribute {attribute!r}")
    found = getattr(module, attribute)
    with _refusals_in_a_sentence():
        worker = found() if callable(found) and not isinstance(found, Worker) else found
    if not isinstance(worker, Worker):
        raise SpecError(f"{spec!r} is a {type(worker).__name__}, not a qlab.Worker")
    return worker


@contextlib.contextmanager
def _refusals_in_a_sentence() -> Iterator[None]:
    """What this library refused to the program (a bad option, a bad URL); other errors stay as they are."""
    try:
        yield
    except (ValueError, TypeError) as error:
        *frames, last = traceback.extract_tb(error.__traceback__)
        library = str(Path(__file__).parent)
        callers = [one for one in frames if not one.filename.startswith((library, "<frozen"))]
        if not callers or not last.filename.startswith(library):
            raise
        raise SpecError(f"{Path(callers[-1].filename).name}, line {callers[-1].lineno}: {error}") from None


def run(spec: str, close_timeout: float | None = None) -> int:
    """Load the worker at `spec` and run it until a signal; return the exit code. See Worker.run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        worker = load(spec)
    except SpecError as error:
        print(f"qlab worker: {error}", file=sys.stderr)
        return 2
    return worker.run(close_timeout)


def run_worker(worker: Worker, close_timeout: float | None = None) -> int:
    """Run a worker until SIGTERM or SIGINT; see Worker.run."""
    loops = asyncio._get_running_loop() is not None
    if loops or threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "Worker.run is for a process of its own: it needs the main thread for its signals, and no event "
            "loop that runs already; here use `async with worker:`"
        )
    code = asyncio.run(_main(worker, close_timeout))
    if any(thread.name.startswith("qlab-job") for thread in threading.enumerate()):
        _leave(code)  # a thread cannot be stopped
    return code


def _leave(code: int) -> NoReturn:
    """End the process although handlers still run: their jobs have been given back, so nobody waits."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


async def _main(worker: Worker, close_timeout: float | None) -> int:
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            log.warning("second signal: running jobs are given back")
            worker.force()
        else:
            log.info("%s: finishing %d running jobs", signal.Signals(number).name, worker.running)
            stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await worker.start()
    waits = [asyncio.create_task(event.wait()) for event in (stop, worker.broken)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
    await worker.close(close_timeout)
    log.info("worker %s has stopped", worker.name)
    code = int(worker.broken.is_set())
    if any(task.get_name() == "qlab-runner" for task in asyncio.all_tasks()):
        _leave(code)  # a handler ignores its cancellation; asyncio.run would wait for it for ever
    return code
