-- advisory_try: take a lock until the end of this transaction, if it is free
-- params: key bigint
-- result: one row (taken bool)
-- keeps:  one transaction at a time has the key; COMMIT, ROLLBACK and a lost connection all free it
SELECT pg_try_advisory_xact_lock(%(key)s::bigint) AS taken;
