-- pg_job_counts: how many jobs are in each state
-- params: queue text
-- result: one row for each state that has jobs (state, jobs)
-- keeps:  reads only
SELECT
    state,
    count(*) AS jobs
FROM pg_job
WHERE queue = %(queue)s
GROUP BY state;
