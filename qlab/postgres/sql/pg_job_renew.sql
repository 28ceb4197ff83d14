-- pg_job_renew: lend the jobs of one worker for longer
-- params: ids bigint[], claims bigint[], lock float8, now timestamptz or null (then the server's clock)
-- result: one row (id, claim) for each job that is still ours
-- keeps:  a lost lease is not won back
UPDATE pg_job SET
    locked_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(lock)s::float8)
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]) AS held (id, claim)
WHERE pg_job.id = held.id
    AND pg_job.claim = held.claim
    AND pg_job.state = 'active'
RETURNING pg_job.id, pg_job.claim;
