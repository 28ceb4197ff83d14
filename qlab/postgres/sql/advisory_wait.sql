-- advisory_wait: take a lock until the end of this transaction, waiting as long as lock_timeout allows
-- params: key bigint
-- result: one row, nothing in it; LockNotAvailable when the time is over
-- keeps:  one transaction at a time has the key; COMMIT, ROLLBACK and a lost connection all free it
SELECT pg_advisory_xact_lock(%(key)s::bigint);
