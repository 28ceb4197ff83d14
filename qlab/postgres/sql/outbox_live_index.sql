-- outbox_live_index: what is still to do, in the order in which it is due
-- params: none
-- result: nothing
-- keeps:  the relay never reads the rows that are done, however many there are
CREATE INDEX IF NOT EXISTS outbox_live ON outbox (next_attempt_at, id)
WHERE published_at IS NULL AND dead_at IS NULL;
