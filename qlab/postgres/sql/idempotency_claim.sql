-- idempotency_claim: take the key, or take it over when the lock of a PENDING row has ended
-- params: key text, request_hash text, lock_seconds float8, now timestamptz or null (then the server's clock)
-- result: one row (lock_token, locked_until) = it is ours; no row = done, held, or used for another request
-- keeps:  of all tokens ever given out for a key, at most one still opens it
-- clock_timestamp(), not now(): now() is the start of the transaction, and we may have waited for the row.
INSERT INTO idempotency_key AS held
    (key, status, locked_until, lock_token, request_hash, created_at)
VALUES (
    %(key)s,
    'PENDING',
    coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(lock_seconds)s::float8),
    gen_random_uuid(),
    %(request_hash)s,
    coalesce(%(now)s::timestamptz, clock_timestamp())
)
ON CONFLICT (key) DO UPDATE SET
    locked_until =
        coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(lock_seconds)s::float8),
    lock_token = gen_random_uuid()
WHERE held.status = 'PENDING'
    AND held.locked_until <= coalesce(%(now)s::timestamptz, clock_timestamp())
    AND held.request_hash = excluded.request_hash
RETURNING lock_token, locked_until;
