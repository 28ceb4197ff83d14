-- pg_job_active_index: leases, the next to run out first
-- params: none
-- result: nothing
-- keeps:  looking for stalled jobs reads the active ones only
CREATE INDEX IF NOT EXISTS pg_job_active ON pg_job (queue, locked_until) WHERE state = 'active';
