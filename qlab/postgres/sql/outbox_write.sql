-- outbox_write: note a message in the caller's transaction
-- params: topic text, payload json, hint bool (wake the relays at COMMIT), now timestamptz or null (server's clock)
-- result: one row (id)
-- keeps:  the message exists exactly if the transaction commits
INSERT INTO outbox (topic, payload, created_at, next_attempt_at)
SELECT
    %(topic)s,
    %(payload)s::json,
    moment.now,
    moment.now
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS moment
RETURNING id, CASE WHEN %(hint)s::bool THEN pg_notify('qlab_outbox', '') END;
