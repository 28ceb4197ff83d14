"""Answers that attack the grader get no points for it, are named, and leave nothing behind."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from qlab.classroom.grading.accounts import FIRST, PER_SLOT, SLOTS
from qlab.classroom.grading.confine import Limits
from qlab.classroom.grading.grader import grade
from qlab.classroom.grading.sandbox import Nursery
from qlab.classroom.grading.submission import find
from qlab.classroom.grading.verdict import Grade
from tests.grading.answers import hand_in, notebook

pytestmark = pytest.mark.slow

RIGHT = notebook()
HANDLER = next("".join(c["source"]) for c in RIGHT["cells"] if c["id"] == "ans-handler")
EMPTY = "async def handle_charge(pool, provider, job, lock_seconds=75):\n"

EXIT_IN_SECOND = "import os\ncalls = []\n" + HANDLER.replace(
    "    order, amount", "    calls.append(1)\n    if len(calls) > 1: os._exit(0)\n    order, amount", 1
)
FORGED = """
import json, os
lines = [{"event": "loaded", "defined": True}, *({"id": n, "value": "charged"} for n in range(30))]
for fd in range(3, 64):
    try: os.write(fd, "".join(json.dumps(line) + "\\n" for line in lines).encode())
    except OSError: pass
"""
NONSENSE = """
import os
for fd in range(3, 64):
    try: os.write(fd, b"\\xff{]\\n")
    except OSError: pass
"""

# attack: (source of the handler's cell, the mistakes that may be named, points)
IDLE = {"nothing_charged", "error_swallowed", "wrong_answer"}  # what is said of an answer that does nothing
ATTACKS: dict[str, tuple[str, set[str], int]] = {
    "exit 0 at import": ("import os\nos._exit(0)", {"died"}, 0),
    "sys.exit at import": ("import sys\nsys.exit(0)", {"load_error"}, 0),
    "exit 0 in the handler": (EMPTY + "    import os; os._exit(0)", {"died"}, 0),
    "sys.exit in the handler": (EMPTY + "    raise SystemExit(0)", {"exception"}, 0),
    "exit 0 in the second call of a right answer": (EXIT_IN_SECOND, {"died"}, 4),  # 1 + 1 + 2
    "exit 0 at exit": ("import atexit, os\natexit.register(os._exit, 0)\n" + EMPTY + "    return", IDLE, 0),
    "SystemExit in a thread": (
        "import sys, threading\nthreading.Thread(target=sys.exit).start()\n" + EMPTY + "    return 'charged'",
        IDLE,
        0,
    ),
    "pytest.exit": ("import pytest\npytest.exit('all passed', 0)", {"load_error"}, 0),
    "loop": ("while True: pass", {"timeout"}, 0),
    "loop that ignores interrupts": (
        "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        {"timeout"},
        0,
    ),
    "loop in C": ("sum(range(10**15))", {"timeout"}, 0),
    "loop in the handler": (EMPTY + "    while True: pass", {"timeout"}, 0),
    "waits for ever": (EMPTY + "    await asyncio.Event().wait()", {"timeout"}, 0),
    "memory": ("x = []\nwhile True: x.append(bytearray(50_000_000))", {"memory"}, 0),
    "memory in the handler": (EMPTY + "    x = bytearray(10**10)", {"memory"}, 0),
    "prints 300 MB": ("for _ in range(300): print('x' * 1_000_000)", {"output"}, 0),
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        {"timeout", "protocol", "cpu"},
        0,
    ),
    "daemons": (
        "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        os.fork()\n        time.sleep(600)\n" + EMPTY + "    return 'charged'",
        {"load_error", *IDLE},
        0,
    ),
    "forged verdicts": (FORGED + EMPTY + "    return 'charged'", {"protocol", *IDLE}, 0),
    "nonsense on the channel": (NONSENSE, {"protocol"}, 0),
    "forged summary": ("print('6 passed in 0.01s')\n" + EMPTY + "    print('PASSED')", IDLE, 0),
    "result files": (
        "import pathlib\nfor p in ('results.json', 'gradebook.csv', 'conftest.py', 'sitecustomize.py'):\n"
        "    pathlib.Path(p).write_text('{}')\n" + EMPTY + "    return 'charged'",
        IDLE,
        0,
    ),
    "equal to everything": (
        "class Yes(str):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        + EMPTY
        + "    return Yes('charged')",
        IDLE,
        0,
    ),
    "syntax error": ("async def handle_charge(", {"load_error"}, 0),
    "no function": ("x = 1", {"not_defined"}, 0),
}  # fmt: skip
OWN_USER = {
    "kills its parent": ("import os\nos.kill(os.getppid(), 9)\n" + EMPTY + "    return", {"load_error"}, 0),
    "kills the group of its parent": (
        "import os\nos.killpg(os.getpgid(os.getppid()), 9)\n" + EMPTY + "    return",
        {"load_error"},
        0,
    ),
    "kills all it can": ("import os\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)", {"died"}, 0),
    "reads the grader's environment": (
        "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) != os.getpid():\n"
        "        open(f'/proc/{p}/environ').read()",
        {"load_error"},
        0,
    ),
}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery(Limits(memory=1 << 29, cpu=10), reply_timeout=2.0)
    yield made
    made.close()


@pytest.fixture(autouse=True)
async def nothing_is_left(nursery: Nursery) -> AsyncIterator[None]:
    yield
    ids = range(FIRST, FIRST + SLOTS * PER_SLOT)
    mine = range(nursery.accounts._base, nursery.accounts._base + PER_SLOT)
    assert set(mine) <= set(ids) or not nursery.accounts.root
    left = [p.pid for p in psutil.process_iter(["uids"]) if p.info["uids"] and p.info["uids"].real in mine]
    assert left == []
    if nursery._process is not None:
        assert psutil.Process(nursery._process.pid).children(recursive=True) == []


async def graded(folder: Path, nursery: Nursery, source: str) -> Grade:
    hand_in(folder, "attacker", notebook({"ans-handler": source}))
    (submission,) = find(folder, ["ex04"])
    return await grade(submission, nursery, os.environ["QLAB_PG_DSN"])


def judge(result: Grade, mistakes: set[str], points: int) -> None:
    found = {v.check: (v.mistake, v.evidence) for v in result.verdicts.values() if not v.passed}
    assert result.total == points, found
    assert {mistake for mistake, _ in found.values()} <= mistakes, found
    assert list(result.verdicts) == list(result.points)
    assert result.notes == []


@pytest.mark.parametrize("name", [*ATTACKS, *OWN_USER])
async def test_h28_attack_gets_no_points(name: str, tmp_path: Path, nursery: Nursery, pg_dsn: str) -> None:
    source, mistakes, points = {**ATTACKS, **OWN_USER}[name]
    judge(await graded(tmp_path, nursery, source), mistakes, points)


@pytest.mark.parametrize("name", ["daemons", "fork bomb", "exit 0 at import", "memory"])
async def test_h28_without_own_users(name: str, tmp_path: Path, pg_dsn: str) -> None:
    """As without root: the answer has the grader's user, and still nothing is left."""
    source, mistakes, points = ATTACKS[name]
    shared = Nursery(Limits(memory=1 << 29, cpu=10), reply_timeout=2.0, own_users=False)
    try:
        judge(await graded(tmp_path, shared, source), mistakes, points)
        assert shared._process is not None
        assert psutil.Process(shared._process.pid).children(recursive=True) == []
    finally:
        shared.close()


async def test_an_answer_has_no_network_and_no_other_database(
    tmp_path: Path, nursery: Nursery, pg_dsn: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        source = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)"
        result = await graded(tmp_path, nursery, source)
    assert result.own_user
    assert result.network_cut
    judge(result, {"load_error"}, 0)


async def test_a_right_answer_after_all_that(tmp_path: Path, nursery: Nursery, pg_dsn: str) -> None:
    judge(await graded(tmp_path, nursery, HANDLER), set(), 10)
