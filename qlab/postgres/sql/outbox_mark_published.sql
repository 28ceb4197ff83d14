-- outbox_mark_published: these messages have left
-- params: ids bigint[], now timestamptz or null (then the server's clock)
-- result: as many rows touched as there are ids
-- keeps:  a published row is never sent again
UPDATE outbox SET
    published_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
    attempts = attempts + 1
WHERE id = any(%(ids)s::bigint[])
    AND published_at IS NULL;
