"""Kill workers, and Redis, at random moments and count what became of the jobs.

    python -m qlab.testing.kill_test --jobs 10000 --kills 10

Real worker processes, real SIGKILLs, a ledger in PostgreSQL that the handler writes itself. What is promised
is checked: no job is lost, none fails, and what an idempotent handler does happens once for each job. That a
job runs again after a kill is no fault but the contract (at least once); how often is counted.
"""
