-- pg_job_waiting_index: what may be taken, in the order in which it is due
-- params: none
-- result: nothing
-- keeps:  taking a job reads neither the active nor the ended ones
CREATE INDEX IF NOT EXISTS pg_job_waiting ON pg_job (queue, run_at, id) WHERE state = 'waiting';
