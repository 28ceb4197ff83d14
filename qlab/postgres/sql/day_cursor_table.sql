-- day_cursor_table: up to which day a roll-up has got
-- params: none
-- result: nothing
-- keeps:  one row for each roll-up; the zone says which instants its days are
CREATE TABLE IF NOT EXISTS day_cursor (
    name     text        CONSTRAINT day_cursor_pkey PRIMARY KEY,
    last_day date        NOT NULL,
    zone     text        NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT day_cursor_name_length CHECK (char_length(name) BETWEEN 1 AND 255)
);
