# The claim never takes a lock that has run out: after a crash the order hangs for ever.
# fails: transient=no_release, crash=no_take_over
# %% ans-sql
CLAIM = """
    INSERT INTO idempotency_key AS held (key, status, locked_until, lock_token)
    VALUES (%(key)s, 'PENDING', clock_timestamp() + make_interval(secs => %(lock_seconds)s), gen_random_uuid())
    ON CONFLICT (key) DO NOTHING
    RETURNING lock_token
"""
RELEASE = """
    UPDATE idempotency_key SET locked_until = clock_timestamp()
    WHERE key = %(key)s AND lock_token = %(token)s AND status = 'PENDING'
"""
DONE = """
    UPDATE idempotency_key SET status = 'DONE', result = %(result)s
    WHERE key = %(key)s AND lock_token = %(token)s AND status = 'PENDING'
"""
