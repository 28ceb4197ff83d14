-- limit_lock_wait: how long a statement of this transaction may wait for a lock
-- params: limit text with its unit (as 500ms)
-- result: one row (before = the limit that held until now)
-- keeps:  ends with the transaction
WITH earlier AS MATERIALIZED (SELECT current_setting('lock_timeout') AS before)
SELECT
    before,
    set_config('lock_timeout', %(limit)s::text, true)
FROM earlier;
