"""The process that actors are forked from, asked directly."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict

import pytest

from qlab.testing import Actor, DeliveryRules, FaultLab
from qlab.testing.explorer.processes import Nursery
from tests.testing import isolated


@pytest.fixture
def nursery(lab: FaultLab) -> Iterator[Nursery]:
    with closing(Nursery((Actor("A", isolated.return_at_once),), None)) as one:
        one.new_folder(lab.folder)
        yield one


def fork_one(nursery: Nursery, lab: FaultLab) -> tuple[int, socket.socket]:
    """A child, and our end of its control socket."""
    rules = DeliveryRules()
    path = lab.folder / "control-of-a-test.sock"
    world = {"pg_dsn": "", "redis_url": "", "provider_url": "", "provider_socket": str(path)}
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        listener.settimeout(20)
        pid = nursery.fork("A", {**world, "rules": asdict(rules), "backoff": rules.backoff}, path, 0.0)
        control, _ = listener.accept()
    path.unlink()
    control.settimeout(20)
    return pid, control


def test_a_child_waits_until_its_last_words_are_heard(nursery: Nursery, lab: FaultLab):
    """Whoever writes to a socket that the other side has closed may lose what is still in it."""
    pid, control = fork_one(nursery, lab)
    with control:
        said = json.loads(control.recv(1000))
        control.sendall(b'{"ping": 2}\n')
        os.kill(pid, 0)  # it is there
    assert said == {"ended": None}


def test_two_explorations_at_once_have_two_users_and_give_them_back(nursery: Nursery):
    """Only root can give its children another user; without root they run as ourselves."""
    actors = (Actor("A", isolated.return_at_once),)
    with closing(Nursery(actors, None)) as other:
        uid = other.uid
        assert (uid is None) == (os.geteuid() != 0)
        assert uid is None or uid != nursery.uid
    with closing(Nursery(actors, None)) as later:
        assert later.uid == uid


def test_a_user_that_is_given_is_taken(lab: FaultLab):
    with closing(Nursery((Actor("A", isolated.return_at_once),), 60_942)) as one:
        assert one.uid == 60_942
