"""Handlers that a sandbox process can import."""

import asyncio
import os
import signal
import time

from qlab import DelayedError, UnrecoverableError


class OddError(Exception):
    """It pickles but cannot be rebuilt."""

    def __init__(self, *, code):
        super().__init__(code)


class GoneBad(UnrecoverableError):
    """A subclass, known in the child only by its class."""


def handle(job):
    match job.name:
        case "block":
            end = time.monotonic() + job.data
            while time.monotonic() < end:
                pass
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "orphan":  # a process of its own outlives it and has all its pipes
            if os.fork() == 0:
                time.sleep(job.data)
            os._exit(3)
        case "awaitable":
            return handle_async(job)
        case "exit":
            os._exit(3)
        case "odd":
            raise OddError(code=7)
        case "final":
            raise GoneBad("malformed")
        case "later":
            if job.claim == 1:
                raise DelayedError(0.05)
        case "server":
            job.refresh().send(None)
    return {"pid": os.getpid(), "data": job.data}


async def handle_async(job):
    await asyncio.sleep(0.01)
    return os.getpid()
