"""Child processes that die with us, whichever way we die (`atexit` does not run after SIGKILL)."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from .account import Account
from .errors import ServerError

_TIE = str(Path(__file__).with_name("tie.py"))


class Tied:
    """A running child that ends when this process does."""

    def __init__(self, process: "subprocess.Popen[bytes]", stop_signal: int, leash: int | None) -> None:
        self.process = process
        self._stop_signal = stop_signal
        self._leash = leash  # write end of the guard's pipe; None when the kernel keeps the tie

    @property
    def ended(self) -> bool:
        """True when the process is gone."""
        return self.process.poll() is not None

    def wait(self, timeout: float) -> int:
        """Exit status of a process that ends by itself; `TimeoutExpired` after `timeout` seconds."""
        status = self.process.wait(timeout)
        self._release()
        return status

    def stop(self, timeout: float = 15.0) -> None:
        """End the process with its signal, or with SIGKILL after `timeout` seconds. May be repeated."""
        if self._leash is None and not self.ended:
            self.process.send_signal(self._stop_signal)
        self._release()  # a guard takes the end of its pipe for the order to stop
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _release(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None


def spawn(
    command: Sequence[str],
    *,
    stop_signal: int,
    account: Account | None,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
) -> Tied:
    """Start `command` in `folder` as `account` (None: our own), its output in `log`, tied to this process.

    Its own session keeps Ctrl-C and a kernel interrupt away from it.
    """
    if not sys.executable:
        raise ServerError(
            "This Python does not know its own executable, so no server can be started from it."
        )
    direct = sys.platform.startswith("linux") and threading.current_thread() is threading.main_thread()
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    words = [
        _TIE,
        "direct" if direct else "guard",
        str(os.getpid()),
        str(int(stop_signal)),
        str(uid),
        str(gid),
    ]
    with contextlib.ExitStack() as closing:
        output = closing.enter_context(log.open("ab"))
        stdin, leash = (subprocess.DEVNULL, None) if direct else os.pipe()
        if leash is not None:
            closing.callback(os.close, stdin)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", *words, *command],
            stdin=stdin,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
    return Tied(process, stop_signal, leash)
