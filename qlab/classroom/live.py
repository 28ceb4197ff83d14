"""The moving picture: a run redrawn while it happens, with real seconds on its axis.

It is shown only where somebody watches, in a notebook that a Jupyter server runs.  A stored or tested
notebook gets the static picture alone, which is the same every time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from qlab.classroom import notebook
from qlab.classroom.texts import text
from qlab.classroom.timeline import live_svg

if TYPE_CHECKING:
    from qlab.classroom.recorder import Recording

FRAME = 0.15
"""Seconds between two drawings; one costs about a millisecond."""


def watched() -> bool:
    """Whether a Jupyter server runs this kernel for a page that somebody looks at."""
    if not os.environ.get("JPY_SESSION_NAME"):
        return False
    from IPython import get_ipython

    return get_ipython() is not None


@asynccontextmanager
async def shown(recording: Recording) -> AsyncIterator[None]:
    """Show the recording while the block runs, and take the picture away afterwards."""
    if not watched():
        yield
        return
    import ipywidgets

    view = ipywidgets.HTML()
    notebook.show(view)
    drawing = asyncio.create_task(_draw(recording, view))
    try:
        yield
    finally:
        drawing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drawing
        view.close()
        notebook.clear()  # else a saved notebook keeps a reference to a view that is gone


async def _draw(recording: Recording, view: object) -> None:
    while True:
        if events := recording.events:
            view.value = live_svg(events, text("lab.live"), recording.elapsed)  # type: ignore[attr-defined]
        await asyncio.sleep(FRAME)
