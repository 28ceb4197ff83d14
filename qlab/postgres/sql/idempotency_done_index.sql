-- idempotency_done_index: what the cleanup may delete, the oldest first
-- params: none
-- result: nothing
-- keeps:  the cleanup reads no row that it does not delete
CREATE INDEX IF NOT EXISTS idempotency_key_done ON idempotency_key (done_at) WHERE status = 'DONE';
