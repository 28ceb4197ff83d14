-- idempotency_done: store the result, if the lock is still ours
-- params: key text, lock_token uuid, result json, now timestamptz or null (then the server's clock)
-- result: one row touched = stored; none = somebody else took the key over, or it is done already
-- keeps:  only the holder of the newest token writes; a DONE row never changes
UPDATE idempotency_key SET
    status = 'DONE',
    result = %(result)s::json,
    done_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE key = %(key)s
    AND lock_token = %(lock_token)s
    AND status = 'PENDING';
