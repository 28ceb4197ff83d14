"""The candidates, and the environments that they run in: made once, in a cache folder, by package name."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parent / "adapters"


class PeerError(Exception):
    """The peer cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Peer:
    """One candidate. `left` are commands whose integers add up to the jobs that are not completed."""

    name: str
    adapter: str
    left: tuple[tuple[str, ...], ...]
    packages: tuple[str, ...] = ()
    kind: str = "python"

    def prepare(self) -> None:
        """Make its environment if it is not there. Raises PeerError."""
        if self.kind == "node":
            _prepare_node(self)
        elif self.packages and not self._python.exists():
            _run([sys.executable, "-m", "venv", str(self._folder)], self)
            _run([str(self._python), "-m", "pip", "install", "-q", *self.packages], self)

    def command(self, *words: Any) -> list[str]:
        """The command line of its adapter."""
        if self.kind == "node":
            return ["node", str(ADAPTERS / self.adapter), *map(str, words)]
        python = str(self._python) if self.packages else sys.executable
        return [python, str(ADAPTERS / "support.py"), self.adapter, *map(str, words)]

    def call(self, *words: Any, env: Mapping[str, str], timeout: float = 180) -> Any:
        """Run the adapter's command and return its answer. Raises PeerError with its last words."""
        done = subprocess.run(
            self.command(*words), env=env, cwd=self.cwd, capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip
        answers = [line for line in done.stdout.splitlines() if line.startswith("@@")]
        if done.returncode or not answers:
            raise PeerError(f"{self.name} {words[0]}: {(done.stderr or done.stdout)[-300:].strip()}")
        return json.loads(answers[-1][2:])

    @property
    def cwd(self) -> Path:
        """Where its adapter runs."""
        return self._folder if self.kind == "node" else ADAPTERS

    @property
    def _folder(self) -> Path:
        return home() / self.name

    @property
    def _python(self) -> Path:
        return self._folder / "bin" / "python"


def home() -> Path:
    """The cache folder: in $QLAB_HOME, else in .qlab, which git ignores."""
    return Path(os.environ.get("QLAB_HOME") or ".qlab").resolve() / "bench"


def _prepare_node(peer: Peer) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise PeerError(f"{peer.name} needs node and npm on the PATH")
    if not (peer.cwd / "node_modules" / peer.packages[0].partition("@")[0]).exists():
        peer.cwd.mkdir(parents=True, exist_ok=True)
        (peer.cwd / "package.json").write_text('{"private": true}\n')
        _run(["npm", "install", "--no-audit", "--no-fund", "--silent", *peer.packages], peer, cwd=peer.cwd)


def _run(command: list[str], peer: Peer, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"{peer.name} could not be installed: {done.stderr[-300:].strip()}")


QLAB = Peer("qlab", "qlab_adapter", (("LLEN", "qlab:{bench}:waiting"), ("ZCARD", "qlab:{bench}:active")))
BULLMQ = Peer(
    "bullmq", "bullmq.mjs", (("LLEN", "bull:q:wait"), ("LLEN", "bull:q:active")),
    ("bullmq@6", "ioredis@6"), "node",
)  # fmt: skip
PYTHON = (
    Peer("dramatiq", "dramatiq_adapter", (("HLEN", "dramatiq:default.msgs"),),
         ("dramatiq[redis]", "hiredis")),
    Peer("taskiq", "taskiq_adapter", (("XGROUPS", "taskiq"),), ("taskiq", "taskiq-redis", "hiredis")),
    Peer("saq", "saq_adapter", (("ZCARD", "saq:default:incomplete"),),
         ("saq[redis,hiredis]", "typing_extensions")),
    Peer("arq", "arq_adapter", (("ZCARD", "arq:queue"),), ("arq", "hiredis")),
    Peer("streaq", "streaq_adapter", (("XLEN", "streaq:default:queues:normal"),), ("streaq",)),
)  # fmt: skip
PG_PEERS = (
    Peer("pg_queue", "pg_queue_adapter", (("SELECT count(*) FROM pg_job WHERE state <> 'completed'",),)),
    Peer("pgqueuer", "pgqueuer_adapter", (("SELECT count(*) FROM pgqueuer",),), ("pgqueuer[asyncpg]",)),
    Peer("pgboss", "pgboss.mjs",
         (("SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state < 'completed'",),),
         ("pg-boss@10",), "node"),
)  # fmt: skip
PEERS = {peer.name: peer for peer in (QLAB, BULLMQ, *PYTHON)}
