-- row_cursor_hold: lock the cursor until the end of this transaction, unless somebody else has it
-- params: name text
-- result: one row (xid as text, id, ahead bool); no row = it does not exist, or another instance reads
-- keeps:  one instance at a time reads a batch
-- ahead: the cursor is behind a transaction that this server has not begun, so it came from another server.
SELECT
    xid::text AS xid,
    id,
    xid >= pg_snapshot_xmax(pg_current_snapshot()) AS ahead
FROM row_cursor
WHERE name = %(name)s
FOR UPDATE SKIP LOCKED;
