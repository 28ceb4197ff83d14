"""Fixtures of the tests of servers: owners in processes of their own, a clean environment, a short folder."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.embedded.owners import Owner


@pytest.fixture
def clean_environment() -> dict[str, str]:
    """Our environment without servers."""
    return {key: value for key, value in os.environ.items() if not key.startswith("QLAB_")}


@pytest.fixture
def own_owner(clean_environment) -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def begin(*arguments: str, environment: dict[str, str] | None = None, **options) -> Owner:
        owners.append(Owner(*arguments, environment=clean_environment | (environment or {}), **options))
        return owners[-1]

    yield begin
    for owner in owners:
        with contextlib.suppress(OSError):
            owner.kill()
        owner.process.stdin.close()
        owner.process.stdout.close()


@pytest.fixture
def no_servers(monkeypatch) -> None:
    """This process as if nobody had started servers for it."""
    for name in [name for name in os.environ if name.startswith("QLAB_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short name: what pytest gives is too long for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="q", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)
