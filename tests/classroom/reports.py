"""Reports and schedules typed by hand, for tests of pictures: no servers."""

from qlab.testing.explorer.report import Report, Row, Schedule, Step


def step(
    name: str, effect: str, fault: str = ".", at: float = 0.0, store: str = "", result: str = ""
) -> Step:
    """A step by its delivery's name (``A'``); the store follows from the effect."""
    verb = effect.partition(" ")[0]
    stores = {"CHARGE": "provider", "LPOP": "redis", "SET": "redis"}
    queue = {"deliver", "ack", "fail", "dead", "give"}
    where = store or ("queue" if verb in queue else stores.get(verb, "postgres"))
    return Step(name.rstrip("'"), name.count("'"), effect, fault, at, where, result)


CRASH = Schedule(
    "A1>",
    "twice",
    1,
    0,
    (
        step("A", "deliver"),
        step("A", "SELECT processed_job", result="SELECT 0"),
        step("A", "CHARGE o1", ">", result="ch_1"),
        step("A", "dead"),
        step("A'", "deliver", at=35.0),
        step("A'", "SELECT processed_job", at=35.0, result="SELECT 0"),
        step("A'", "CHARGE o1", at=35.0, result="ch_2"),
        step("A'", "INSERT processed_job", at=35.0, result="INSERT 0 1"),
        step("A'", "ack", at=35.0),
    ),
)
STALL = Schedule(
    "A1~",
    "twice",
    1,
    0,
    (
        step("A", "deliver"),
        step("A", "SELECT processed_job", result="SELECT 0"),
        step("A", "CHARGE o1", "~", result="ch_2"),
        step("A'", "deliver", at=35.0),
        step("A'", "SELECT processed_job", at=35.0, result="SELECT 0"),
        step("A'", "CHARGE o1", at=35.0, result="ch_1"),
        step("A'", "INSERT processed_job", at=35.0, result="INSERT 0 1"),
        step("A'", "ack", at=35.0),
        step("A", "CHARGE o1", at=35.0, result="ch_2"),
        step("A", "INSERT processed_job", at=35.0, result="INSERT 0 0"),
        step("A", "ack", at=35.0),
    ),
)
STUCK = Schedule(
    "A0?",
    "stuck",
    1,
    0,
    (
        step("A", "deliver"),
        step("A", "SET lock", "?", result="OK"),
        step("A", "fail"),
        step("A'", "deliver", at=1.0),
        step("A'", "SET lock", at=1.0, result="nil"),
        step("A'", "fail", at=1.0),
        step("A'", "give up", at=1.0),
    ),
)


def row(index: int, effect: str, cells: str) -> Row:
    """A row from five letters, one for each kind of fault: o(nce), l(ost), t(wice), s(tuck), - (none)."""
    words = {"o": "once", "l": "lost", "t": "twice", "s": "stuck", "g": "ghost", "h": "half", "-": None}
    outcomes = {fault: words[cell] for fault, cell in zip("<>~!?", cells, strict=True)}
    return Row("A", index, effect, outcomes, {fault: f"A{index - 1}{fault}" for fault in "<>~!?"})


def report(rows: list[Row], failure: Schedule | None = None, schedules: int = 13) -> Report:
    """A report with these rows."""
    words = [word for one in rows for word in one.outcomes.values() if word]
    outcomes = {word: words.count(word) for word in dict.fromkeys(words)}
    return Report(outcomes, schedules, 0.1, 1, 0, True, tuple(rows), failure, "digest")


KEY_FIRST = report([row(1, "INSERT processed_job", "olo-l"), row(2, "CHARGE o1", "llolo")], CRASH)
CHARGE_FIRST = report(
    [
        row(1, "SELECT processed_job", "oot-o"),
        row(2, "CHARGE o1", "ottot"),
        row(3, "INSERT processed_job", "tot-o"),
    ],
    CRASH,
    20,
)
GOOD = report([row(1, "INSERT idempotency_key", "ooo-s"), row(2, "CHARGE o1", "ooooo")], STUCK, 20)
CLEAN = report([row(1, "INSERT idempotency_key", "ooo-o"), row(2, "CHARGE o1", "ooooo")], None, 20)
LONG = report([row(i, f"ZADD queue {i}", "ghtsl") for i in range(1, 9)], CRASH, 96)
