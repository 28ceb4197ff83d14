"""One lab for all tests of the explorer in this process: its servers take a second or two to start."""

from collections.abc import AsyncIterator

import pytest_asyncio

from qlab.testing import FaultLab


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lab() -> AsyncIterator[FaultLab]:
    async with FaultLab() as one:
        yield one
