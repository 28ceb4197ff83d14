-- pg_job_enqueue: add a job in the caller's transaction
-- params: queue text, name text, data json, attempts int, delay float8, now timestamptz or null (then the server's clock)
-- result: one row (id)
-- keeps:  the job exists exactly if the transaction commits, so no outbox is needed
INSERT INTO pg_job (queue, name, data, max_attempts, run_at)
VALUES (
    %(queue)s,
    %(name)s,
    %(data)s::json,
    %(attempts)s,
    coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(delay)s::float8)
)
RETURNING id;
