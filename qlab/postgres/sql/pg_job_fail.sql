-- pg_job_fail: the attempt failed; wait for the next one, or end
-- params: id bigint, claim bigint, reason text, final bool, delay float8, now timestamptz or null (then the server's clock)
-- result: one row (state); no row = the lease ran out and the job was given to somebody else
-- keeps:  only the newest claim writes; no more attempts than allowed
UPDATE pg_job SET
    state = CASE WHEN %(final)s OR attempts_made + 1 >= max_attempts THEN 'failed' ELSE 'waiting' END,
    ended_at = CASE WHEN %(final)s OR attempts_made + 1 >= max_attempts THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END,
    run_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(delay)s::float8),
    attempts_made = attempts_made + 1,
    failed_reason = %(reason)s,
    worker = NULL,
    locked_until = NULL
WHERE id = %(id)s
    AND claim = %(claim)s
    AND state = 'active'
RETURNING state;
