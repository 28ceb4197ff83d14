"""The last choice: fakeredis, a Redis written in Python, over TCP, for machines on which no Valkey runs."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from .account import private_folder
from .errors import ServerError
from .lifetime import Tied, spawn
from .waiting import wait_until_ready

NOTICE = (
    "Redis here is fakeredis, an imitation in Python. It is slow, any program here can reach it, and "
    "it cannot show: CONFIG, INFO, MEMORY, SLOWLOG, WAIT, redis.sha1hex, scripts that begin with #!lua, "
    "persistence, eviction. For the real thing set QLAB_REDIS_URL to a Redis or Valkey of yours."
)


def start(folder: Path) -> tuple[Tied, str]:
    """Start fakeredis in the new folder `folder`; return the process and its URL."""
    if find_spec("fakeredis") is None:
        raise ServerError("fakeredis is not installed: pip install 'qlab-course[embedded]'.")
    private_folder(folder, None)
    place, log = folder / "port", folder.with_suffix(".log")
    program = str(Path(__file__).with_name("fake_server.py"))
    server = spawn(
        [sys.executable, "-P", program, str(place)],  # -P: the modules beside the program are not for import
        stop_signal=signal.SIGKILL,
        account=None,
        folder=folder,
        log=log,
        environment=os.environ,
    )
    wait_until_ready(server, place.exists, "fakeredis", log)
    return server, f"redis://127.0.0.1:{int(place.read_text())}/0"
