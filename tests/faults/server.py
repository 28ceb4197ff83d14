"""A Valkey that can be stopped, killed, paused and started again on the same data and the same address."""

import os
import secrets
import signal
from pathlib import Path

import redis as redis_sync

from qlab.embedded import rundir, valkey
from qlab.embedded.account import private_folder, readable_programs, service_account
from qlab.embedded.lifetime import Tied, spawn
from qlab.embedded.urls import redis_socket_url
from qlab.embedded.waiting import wait_until_ready

_CONFIGURATION = """\
port {port}
bind 127.0.0.1
unixsocket redis.sock
unixsocketperm 777
requirepass {password}
save ""
appendonly yes
appendfsync {fsync}
"""


class Server:
    """Append-only file on. Everything is deleted by `close`. `more` are further lines of its configuration;
    `port` is for what insists on one, clients use the socket."""

    def __init__(self, fsync: str = "always", port: int = 0, more: str = "") -> None:
        self._run_folder = rundir.create()
        self._account = service_account()
        root, program = valkey._program()
        self._binary = readable_programs(root, [program], "valkey-tests", self._account) / program
        self._folder = private_folder(Path(self._run_folder.path, "redis"), self._account, passable=True)
        password = secrets.token_hex(16)
        self._configuration = self._folder / "valkey.conf"
        self._configuration.write_text(
            _CONFIGURATION.format(password=password, fsync=fsync, port=port) + more
        )
        if self._account:
            os.chown(self._configuration, self._account.uid, self._account.gid)
        self.socket = str(self._folder / "redis.sock")
        self.url = redis_socket_url(self.socket, password)
        self._server: Tied | None = None
        self.start()

    def start(self) -> None:
        """Start on what the append-only file holds."""
        log = self._folder.with_suffix(".log")
        self._server = spawn(
            [str(self._binary), self._configuration.name],
            stop_signal=signal.SIGKILL,
            account=self._account,
            folder=self._folder,
            log=log,
            environment={"PATH": os.defpath, "LC_ALL": "C"},
        )
        wait_until_ready(self._server, self._answers, "The Valkey of the test", log)

    def stop(self) -> None:
        """A clean end, as a restart by an operator."""
        self._server.process.send_signal(signal.SIGTERM)
        self._server.wait(20)

    def kill(self) -> None:
        """The end of a server that crashed."""
        self._server.stop()

    def pause(self) -> None:
        """The process stands still; its connections stay open."""
        self._server.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on where it was."""
        self._server.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it and delete its data."""
        self._server.stop()
        self._run_folder.remove()

    def _answers(self) -> bool:
        try:
            with redis_sync.Redis.from_url(self.url) as client:
                return client.ping()
        except redis_sync.RedisError:
            return False
