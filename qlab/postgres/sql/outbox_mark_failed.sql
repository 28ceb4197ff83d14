-- outbox_mark_failed: this message could not leave; try it again after `delay`, or never
-- params: id bigint, tries int, delay float8, error text, now timestamptz or null (then the server's clock)
-- result: one row touched
-- tries is 1, or 0 when it was not the message's fault; delay is in seconds, -1 = no more tries.
-- keeps:  a row that fails moves back in the line, so it never stands before the others
UPDATE outbox SET
    attempts = attempts + %(tries)s,
    last_error = %(error)s,
    next_attempt_at = CASE
        WHEN %(delay)s::float8 < 0 THEN next_attempt_at
        ELSE coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => %(delay)s::float8)
    END,
    dead_at = CASE WHEN %(delay)s::float8 < 0 THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END
WHERE id = %(id)s;
