-- row_cursor_create: begin before the first row, unless the reader has begun
-- params: name text
-- result: one row touched = begun now; none = it was there
-- keeps:  an existing cursor is never moved
INSERT INTO row_cursor (name)
VALUES (%(name)s)
ON CONFLICT (name) DO NOTHING;
