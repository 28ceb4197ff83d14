-- install_lock: let one installer at a time create the tables
-- params: none
-- result: one row, nothing in it
-- keeps:  CREATE TABLE IF NOT EXISTS never races with itself; the lock ends with the transaction
SELECT pg_advisory_xact_lock(7091420261001);
