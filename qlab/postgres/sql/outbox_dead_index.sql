-- outbox_dead_index: the few rows that nobody could deliver
-- params: none
-- result: nothing
-- keeps:  counting and replaying them reads nothing else
CREATE INDEX IF NOT EXISTS outbox_dead ON outbox (id) WHERE dead_at IS NOT NULL;
