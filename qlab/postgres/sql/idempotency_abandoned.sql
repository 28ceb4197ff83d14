-- idempotency_abandoned: keys whose holder is gone and that nobody took over
-- params: older_than float8, batch int, now timestamptz or null (then the server's clock)
-- result: at most `batch` rows (key, locked_until), the oldest first
-- keeps:  reads only; older_than is in seconds since the end of the lock
SELECT
    key,
    locked_until
FROM idempotency_key
WHERE status = 'PENDING'
    AND locked_until <= coalesce(%(now)s::timestamptz, clock_timestamp())
    - make_interval(secs => %(older_than)s::float8)
ORDER BY locked_until
LIMIT %(batch)s;
