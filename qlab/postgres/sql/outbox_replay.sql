-- outbox_replay: give dead messages all their attempts again
-- params: ids bigint[] or null (then all), now timestamptz or null (then the transaction's start)
-- result: as many rows touched as were revived
-- keeps:  live and published rows are not touched; the id stays, so the receiver can deduplicate
-- now(), not clock_timestamp(): all are due at one moment, so they go out in the order of their ids.
UPDATE outbox SET
    dead_at = NULL,
    attempts = 0,
    next_attempt_at = coalesce(%(now)s::timestamptz, now())
WHERE dead_at IS NOT NULL
    AND (%(ids)s::bigint[] IS NULL OR id = any(%(ids)s::bigint[]));
