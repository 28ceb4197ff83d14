-- pg_job_release: give a job back unfinished; no attempt is counted
-- params: id bigint, claim bigint
-- result: one row touched; none = it was somebody else's by now
-- keeps:  it keeps its place in the line
UPDATE pg_job SET
    state = 'waiting',
    worker = NULL,
    locked_until = NULL
WHERE id = %(id)s
    AND claim = %(claim)s
    AND state = 'active';
