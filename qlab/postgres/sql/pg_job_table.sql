-- pg_job_table: one row for each job of a queue that lives in PostgreSQL
-- params: none
-- result: nothing
-- keeps:  exactly the active rows have a worker and a lease; exactly the ended ones have an end
CREATE TABLE IF NOT EXISTS pg_job (
    id            bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT pg_job_pkey PRIMARY KEY,
    queue         text        NOT NULL,
    name          text        NOT NULL,
    data          json        NOT NULL,
    state         text        NOT NULL DEFAULT 'waiting',
    run_at        timestamptz NOT NULL,
    max_attempts  integer     NOT NULL,
    attempts_made integer     NOT NULL DEFAULT 0,
    stalled       integer     NOT NULL DEFAULT 0,
    claim         bigint      NOT NULL DEFAULT 0,
    worker        text,
    locked_until  timestamptz,
    result        json,
    failed_reason text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    CONSTRAINT pg_job_state CHECK (state IN ('waiting', 'active', 'completed', 'failed')),
    CONSTRAINT pg_job_active_has_lease
        CHECK ((state = 'active') = (locked_until IS NOT NULL) AND (state = 'active') = (worker IS NOT NULL)),
    CONSTRAINT pg_job_ended CHECK ((state IN ('completed', 'failed')) = (ended_at IS NOT NULL)),
    CONSTRAINT pg_job_attempts CHECK (attempts_made BETWEEN 0 AND max_attempts)
);
