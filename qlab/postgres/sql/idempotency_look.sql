-- idempotency_look: why a claim came back empty
-- params: key text, now timestamptz or null (then the server's clock)
-- result: one row (status, request_hash, result as text, retry_after in seconds); no row = the key is free
-- keeps:  reads only
SELECT
    status,
    request_hash,
    result::text AS result,
    greatest(
        extract(epoch FROM locked_until - coalesce(%(now)s::timestamptz, clock_timestamp())), 0
    )::float8 AS retry_after
FROM idempotency_key
WHERE key = %(key)s;
