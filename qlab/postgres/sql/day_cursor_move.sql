-- day_cursor_move: this day is written
-- params: name text, day date
-- result: one row touched = moved; none = the cursor was not on the day before, so somebody moved it
-- keeps:  the cursor goes forward, one day at a time
UPDATE day_cursor SET
    last_day = %(day)s::date,
    moved_at = clock_timestamp()
WHERE name = %(name)s
    AND last_day = %(day)s::date - 1;
