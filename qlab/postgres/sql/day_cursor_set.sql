-- day_cursor_set: put the cursor where a person wants it
-- params: name text, last_day date
-- result: one row touched; none = there is no such cursor
-- keeps:  waits for an instance that works on a day right now, so no day is cut in half
UPDATE day_cursor SET
    last_day = %(last_day)s,
    moved_at = clock_timestamp()
WHERE name = %(name)s;
