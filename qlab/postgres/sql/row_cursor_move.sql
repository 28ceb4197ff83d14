-- row_cursor_move: these rows are handled
-- params: name text, xid xid8, id bigint
-- result: one row touched = moved; none = that would not have been forward
-- keeps:  the cursor only goes forward
UPDATE row_cursor SET
    xid = %(xid)s::text::xid8,
    id = %(id)s,
    moved_at = clock_timestamp()
WHERE name = %(name)s
    AND (xid, id) < (%(xid)s::text::xid8, %(id)s);
