-- outbox_take: lock the messages that are due and that no other relay holds
-- params: batch int, now timestamptz or null (then the server's clock)
-- result: up to `batch` rows (id, topic, payload as text, created_at, attempts), what is due longest first
-- keeps:  a row is in the hands of one relay at a time, until its transaction ends, however it ends
-- By state, not "id greater than the last one seen": ids are given out before COMMIT, so a lower id can
-- become visible after a higher one.
SELECT
    id,
    topic,
    payload::text AS payload,
    created_at,
    attempts
FROM outbox
WHERE published_at IS NULL
    AND dead_at IS NULL
    AND next_attempt_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
ORDER BY next_attempt_at, id
LIMIT %(batch)s
FOR UPDATE SKIP LOCKED;
