-- idempotency_pending_index: the few keys that somebody works on, or left behind
-- params: none
-- result: nothing
-- keeps:  looking for abandoned keys reads nothing else
CREATE INDEX IF NOT EXISTS idempotency_key_pending ON idempotency_key (locked_until) WHERE status = 'PENDING';
