-- limit_lock_wait: how long a statement of this transaction may wait for a lock, and may take at all
-- params: locks text with its unit (as 500ms), statements text (0: no limit)
-- result: one row (locks, statements = the limits that held until now)
-- keeps:  ends with the transaction
WITH earlier AS MATERIALIZED (
    SELECT
        current_setting('lock_timeout') AS locks,
        current_setting('statement_timeout') AS statements
)
SELECT
    locks,
    statements,
    set_config('lock_timeout', %(locks)s::text, true),
    set_config('statement_timeout', %(statements)s::text, true)
FROM earlier;
