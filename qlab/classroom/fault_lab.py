"""The fault lab of a notebook: opened by the first cell that asks, the same one for all cells after it."""

from __future__ import annotations

import asyncio
import atexit

from qlab.testing import FaultLab

_open: FaultLab | None = None


async def fault_lab() -> FaultLab:
    """An open FaultLab with private servers, which end with the kernel.

    Raises what opening one raises: ServerError or ExplorerError, one sentence.
    """
    global _open
    if _open is None or not _open.open:
        lab = FaultLab()
        await lab.__aenter__()  # it stays open from cell to cell, so no block can hold it
        atexit.register(_close, lab)
        _open = lab
    return _open


def _close(lab: FaultLab) -> None:
    asyncio.run(lab.__aexit__())
