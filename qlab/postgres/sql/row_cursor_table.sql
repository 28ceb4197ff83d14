-- row_cursor_table: up to which row a reader has got
-- params: none
-- result: nothing
-- keeps:  one row for each reader; (0, 0) is before every row
CREATE TABLE IF NOT EXISTS row_cursor (
    name     text        CONSTRAINT row_cursor_pkey PRIMARY KEY,
    xid      xid8        NOT NULL DEFAULT '0',
    id       bigint      NOT NULL DEFAULT 0,
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT row_cursor_name_length CHECK (char_length(name) BETWEEN 1 AND 255)
);
