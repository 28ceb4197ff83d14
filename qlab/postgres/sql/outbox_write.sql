-- outbox_write: note a message in the caller's transaction
-- params: topic text, payload json, hint bool, now timestamptz or null (then the server's clock)
-- result: one row (id); with `hint` the relays hear of it at COMMIT
-- keeps:  the message exists exactly if the transaction commits
INSERT INTO outbox (topic, payload, created_at, next_attempt_at)
SELECT
    %(topic)s,
    %(payload)s::json,
    moment.now,
    moment.now
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS moment
RETURNING id, CASE WHEN %(hint)s::bool THEN pg_notify('qlab_outbox', '') END;
