-- outbox_published_index: what the cleanup may delete, the oldest first
-- params: none
-- result: nothing
-- keeps:  the cleanup reads no row that it does not delete
CREATE INDEX IF NOT EXISTS outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;
