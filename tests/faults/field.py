"""What the field cases share: worker processes of field_jobs.py and the ledger that they write."""

from dataclasses import dataclass

from tests.redis.queue_state import until


@dataclass(frozen=True)
class Line:
    """One line of the ledger; `at` in ms on the server's clock."""

    word: str
    name: str
    job_id: str
    at: int


def field_worker(start_process, name, *, spec="worker", lock=1.0, check=0.5, **options):
    """A process with the options of the field cases: lock 1 s, renewed every 0.4 s, a check every 0.5 s."""
    return start_process(name, spec=f"field_jobs:{spec}", lock=lock, check=check, **options)


async def lines(ledger, word=""):
    """The ledger's lines that begin with the word."""
    return [Line(*line.split()[:3], int(line.split()[3])) for line in await ledger(word)]


async def starts(ledger, job_id=None):
    """The starts of handlers, of one job or of all."""
    return [line for line in await lines(ledger, "start") if job_id in (None, line.job_id)]


async def wait_for_start(ledger, name, count=1, limit=20):
    """Wait until the process `name` has started `count` jobs."""

    async def enough():
        return len([line for line in await starts(ledger) if line.name == name]) >= count

    await until(enough, limit)
