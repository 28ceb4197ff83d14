"""HTTP services of a lesson: real uvicorn processes on the lab's leash.

    inline = await start_api(lab, "inline_api:app", "INLINE")
    inline.url                                     # http://127.0.0.1:43211
    inline.kill()

A service runs until it is killed or its lab is closed: no recording stops it, and it is in no picture.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

from qlab.classroom.lab import UP_TIMEOUT, Lab
from qlab.classroom.processes import LabError, WorkerProcess, worker_environment
from qlab.classroom.texts import text

_SERVES = r"running on (http://\S+)"
_UVICORN = ("-m", "uvicorn")
_OPTIONS = ("--port", "0", "--no-access-log", "--timeout-graceful-shutdown", "1")


async def start_api(lab: Lab, target: str, lane: str = "API", **environment: str) -> WorkerProcess:
    """Serve the ASGI application ``target`` ("module:app", or a factory) and return its process.

    One that ran under this name is ended first, so a cell can be run again. More keywords become environment
    variables. Raises LabError, with the last lines of its log, when it does not come up.
    """
    if not re.fullmatch(r"[A-Za-z0-9]{1,8}", lane) or lane in lab.workers:
        raise LabError(text("lab.lane_name", lane=lane))
    if lane in lab.services:
        await lab.services[lane].stop()
    lab._check_open()
    own = worker_environment(lab.folder, **environment)
    words = [target, *_OPTIONS]

    def ended(kind: str, lane: str, note: str, at: float) -> None:
        """Its number may be another process' tomorrow: nobody is to kill that one at the kernel's death."""
        if kind in ("died", "stopped"):
            with contextlib.suppress(KeyError, LabError):
                lab._watcher.order(forget=lab.services[lane].pid)

    service = await WorkerProcess.start(lane, words, lab.folder, own, lab._watcher, ended, _UVICORN)
    lab.services[lane] = service
    found = await until_said(service, _SERVES)
    service.url = found.group(1)
    return service


async def until_said(process: WorkerProcess, pattern: str) -> re.Match[str]:
    """Wait until the process' log has this pattern. LabError when it ends before it, or is silent."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UP_TIMEOUT):
            while process.alive and not process.says(pattern):
                await asyncio.sleep(0.01)
    found = process.says(pattern)
    if found is None:
        error = process.failure(UP_TIMEOUT)
        process.end_now()
        raise error
    return found
