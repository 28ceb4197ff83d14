# DONE forgets the token: a late worker writes on the new holder's row.
# fails: done=done_without_token
# %% ans-sql
CLAIM = """
    INSERT INTO idempotency_key AS held (key, status, locked_until, lock_token)
    VALUES (%(key)s, 'PENDING', clock_timestamp() + make_interval(secs => %(lock_seconds)s), gen_random_uuid())
    ON CONFLICT (key) DO UPDATE
        SET locked_until = clock_timestamp() + make_interval(secs => %(lock_seconds)s),
            lock_token = gen_random_uuid()
        WHERE held.status = 'PENDING' AND held.locked_until <= clock_timestamp()
    RETURNING lock_token
"""
RELEASE = """
    UPDATE idempotency_key SET locked_until = clock_timestamp()
    WHERE key = %(key)s AND lock_token = %(token)s AND status = 'PENDING'
"""
DONE = """
    UPDATE idempotency_key SET status = 'DONE', result = %(result)s
    WHERE key = %(key)s AND status = 'PENDING'
"""
