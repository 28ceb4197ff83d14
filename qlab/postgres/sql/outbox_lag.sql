-- outbox_lag: how far the relays are behind
-- params: now timestamptz or null (then the server's clock)
-- result: one row (live, dead, oldest = age of the oldest live row in seconds, null when there is none)
-- keeps:  reads only; dead rows do not count as lag, they have a count of their own
SELECT
    (SELECT count(*) FROM outbox WHERE published_at IS NULL AND dead_at IS NULL) AS live,
    (SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL) AS dead,
    (
        SELECT extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp()) - min(created_at))::float8
        FROM outbox
        WHERE published_at IS NULL AND dead_at IS NULL
    ) AS oldest;
