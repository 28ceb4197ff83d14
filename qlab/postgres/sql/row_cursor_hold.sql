-- row_cursor_hold: lock the cursor until the end of this transaction, unless somebody else has it
-- params: name text
-- result: one row (xid as text, id); no row = it does not exist, or another instance reads
-- keeps:  one instance at a time reads a batch
SELECT
    xid::text AS xid,
    id
FROM row_cursor
WHERE name = %(name)s
FOR UPDATE SKIP LOCKED;
