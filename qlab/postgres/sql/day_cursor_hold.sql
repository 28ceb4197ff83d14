-- day_cursor_hold: lock the cursor until the end of this transaction, unless somebody else has it
-- params: name text, now timestamptz or null (then the server's clock)
-- result: one row (last_day, zone, now); no row = it does not exist, or another instance works on it
-- keeps:  one instance at a time works on a day
SELECT
    last_day,
    zone,
    coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
FROM day_cursor
WHERE name = %(name)s
FOR UPDATE SKIP LOCKED;
