"""The place of one submission: its user id, its folder, its processes."""

import os
import shutil
import socket
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qlab.classroom.grading.answer import Answer
from qlab.classroom.grading.sandbox import Nursery, NurseryDied


class Cage:
    """Where the answers of one submission live and end."""

    def __init__(self, nursery: Nursery, *, cut_network: bool) -> None:
        self.nursery = nursery
        self.uid = nursery.accounts.next()
        self.cut_network = cut_network and self.uid is not None
        self.folder = Path(tempfile.mkdtemp(prefix="qlab-grade-"))
        self.folder.chmod(0o711)
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        if self.uid is not None:
            os.chown(self.home, self.uid, self.uid)

    async def spawn(self, job: dict[str, Any]) -> Answer:
        """Start an answer process. Call `loaded()` on it before anything else."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        request = {
            "op": "spawn",
            "uid": self.uid,
            "home": str(self.home),
            "limits": asdict(self.nursery.limits),
            "cut_network": self.cut_network,
            "job": job,
        }
        try:
            reply = self.nursery.ask(request, (theirs.fileno(), writing))
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        self.nursery.network_cut = bool(reply["cut"])
        return await Answer.open(self.nursery, reply["pid"], ours, reading)

    def kill_all(self) -> int:
        """End every process that the submission started; returns how many could not be ended."""
        try:
            return int(self.nursery.ask({"op": "kill_all", "uid": self.uid})["left"])
        except NurseryDied:
            return 0

    def close(self) -> int:
        """As `kill_all`, and remove the folder."""
        try:
            return self.kill_all()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
