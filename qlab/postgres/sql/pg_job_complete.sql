-- pg_job_complete: the job is done, if it is still lent to us
-- params: id bigint, claim bigint, result json, now timestamptz or null (then the server's clock)
-- result: one row touched = done; none = the lease ran out and the job was given to somebody else
-- keeps:  only the newest claim ends a job; in the caller's transaction it ends exactly if his data commits
UPDATE pg_job SET
    state = 'completed',
    result = %(result)s::json,
    attempts_made = attempts_made + 1,
    ended_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
    worker = NULL,
    locked_until = NULL
WHERE id = %(id)s
    AND claim = %(claim)s
    AND state = 'active';
