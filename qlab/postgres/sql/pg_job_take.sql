-- pg_job_take: lend the jobs that are due to one worker
-- params: queue text, most int, worker text, lock float8, now timestamptz or null (then the server's clock)
-- result: up to `most` rows (id, name, text = the data, attempts_made, max_attempts, claim, run_at), in any order
-- keeps:  a job is lent to one worker at a time; each lending has a higher claim than the one before
WITH due AS (
    SELECT id
    FROM pg_job
    WHERE queue = %(queue)s
        AND state = 'waiting'
        AND run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    ORDER BY run_at, id
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
)
UPDATE pg_job SET
    state = 'active',
    worker = %(worker)s,
    claim = claim + 1,
    locked_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(lock)s::float8)
FROM due
WHERE pg_job.id = due.id
RETURNING pg_job.id, name, data::text AS text, attempts_made, max_attempts, claim, run_at;
