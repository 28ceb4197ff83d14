-- day_cursor_create: begin a roll-up after `last_day`, unless it has begun
-- params: name text, last_day date, zone text
-- result: one row touched = begun now; none = it was there
-- keeps:  an existing cursor is never moved
INSERT INTO day_cursor (name, last_day, zone)
VALUES (%(name)s, %(last_day)s, %(zone)s)
ON CONFLICT (name) DO NOTHING;
