-- idempotency_release: end our lock now, so that a retry need not wait for it to run out
-- params: key text, lock_token uuid, now timestamptz or null (then the server's clock)
-- result: one row touched = released; none = the lock is somebody else's by now
-- keeps:  an old holder cannot open the lock of the new one
UPDATE idempotency_key SET
    locked_until = least(locked_until, coalesce(%(now)s::timestamptz, clock_timestamp()))
WHERE key = %(key)s
    AND lock_token = %(lock_token)s
    AND status = 'PENDING';
