-- pg_job_recover: jobs whose lease ran out wait again; one that stalled too often fails
-- params: queue text, max_stalled int, batch int, now timestamptz or null (then the server's clock)
-- result: at most `batch` rows (id, state)
-- keeps:  a job that is renewed at this moment is left alone
UPDATE pg_job SET
    state = CASE WHEN stalled >= %(max_stalled)s THEN 'failed' ELSE 'waiting' END,
    ended_at = CASE WHEN stalled >= %(max_stalled)s THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END,
    failed_reason = CASE
        WHEN stalled >= %(max_stalled)s THEN 'job stalled more than allowable limit' ELSE failed_reason
    END,
    stalled = stalled + 1,
    worker = NULL,
    locked_until = NULL
WHERE id IN (
    SELECT id
    FROM pg_job
    WHERE queue = %(queue)s
        AND state = 'active'
        AND locked_until <= coalesce(%(now)s::timestamptz, clock_timestamp())
    ORDER BY locked_until
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id, state;
