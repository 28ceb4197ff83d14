-- idempotency_cleanup: delete keys whose effect happened long ago
-- params: keep float8, batch int, now timestamptz or null (then the server's clock)
-- result: at most `batch` rows touched; fewer = there are no more
-- keeps:  a PENDING key stays, however old it is: its effect may have happened, and nobody noted it
-- keep is in seconds.
DELETE FROM idempotency_key
WHERE key IN (
    SELECT key
    FROM idempotency_key
    WHERE status = 'DONE'
        AND done_at < coalesce(%(now)s::timestamptz, clock_timestamp())
        - make_interval(secs => %(keep)s::float8)
    ORDER BY done_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
);
