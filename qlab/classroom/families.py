"""Small questions about flows: how a parent ended, and which keys a queue has in Redis."""

from __future__ import annotations

import asyncio
from typing import Any

from qlab.classroom.lab import Lab
from qlab.classroom.processes import LabError
from qlab.classroom.texts import text
from qlab.flow import JobNode
from qlab.keys import Keys

OVER = ("completed", "failed")


async def ended(tree: JobNode, within: float = 10.0) -> str:
    """The parent's state once nothing of the family moves any more.

    That is: it has ended, or all its children have and it still waits for them. LabError after ``within``
    seconds.
    """
    try:
        async with asyncio.timeout(within):
            while True:
                children = [(await child.job.refresh()).state for child in tree.children]
                # Read after its children: the script that ends the last child also decides about the parent.
                state = (await tree.job.refresh()).state
                over = all(child in OVER for child in children)
                if over and state in (*OVER, "waiting-children"):
                    return state
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise LabError(text("lab.not_ended", seconds=f"{within:g}", state=tree.job.state)) from None


PASSING = {"wake", "pump"}
"""Kinds of keys that come and go as workers fall asleep, wake up and talk to the server."""


async def kinds_of_keys(lab: Lab, queue: str) -> list[str]:
    """What kinds of lasting keys the queue has, without the ids of jobs: ``["delayed", "events", "job"]``."""
    base = Keys(queue, lab.prefix).base
    found: set[str] = set()
    client: Any = lab.redis
    async for key in client.scan_iter(f"{base}*", count=1000):
        found.add(key.removeprefix(base).partition(":")[0])
    return sorted(found - PASSING)
