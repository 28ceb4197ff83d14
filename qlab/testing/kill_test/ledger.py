"""Three tables that the handlers write: every run, an effect without protection, and an idempotent one."""

import psycopg

TABLES = """
CREATE TABLE runs (
    job_id text NOT NULL,
    worker text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE effect_naive (job_id text NOT NULL);
CREATE TABLE effect_idem (job_id text PRIMARY KEY);
"""

# One statement: a kill leaves all three rows or none, so a rerun is exactly a duplicate in effect_naive.
WORK = """
WITH run AS (INSERT INTO runs (job_id, worker) VALUES (%(job)s, %(worker)s)),
   naive AS (INSERT INTO effect_naive (job_id) VALUES (%(job)s))
INSERT INTO effect_idem (job_id) VALUES (%(job)s) ON CONFLICT (job_id) DO NOTHING
"""

_COUNTS = """
SELECT (SELECT count(*) FROM runs), (SELECT count(DISTINCT job_id) FROM runs),
       (SELECT count(*) FROM effect_naive), (SELECT count(DISTINCT job_id) FROM effect_naive),
       (SELECT count(*) FROM effect_idem)
"""


def create(dsn: str) -> None:
    """Make the tables."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)


def counts(dsn: str) -> dict[str, int]:
    """What the ledger says, under the names of the result."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_COUNTS).fetchone() or (0,) * 5
    runs, distinct, naive, naive_jobs, idem = row
    return {
        "runs": runs, "distinctRuns": distinct, "reruns": runs - distinct, "effect_naive": naive,
        "naive_duplicates": naive - naive_jobs, "effect_idem": idem,
    }  # fmt: skip


def job_ids(dsn: str) -> set[str]:
    """The jobs that have run."""
    with psycopg.connect(dsn) as connection:
        return {job_id for (job_id,) in connection.execute("SELECT DISTINCT job_id FROM runs")}
