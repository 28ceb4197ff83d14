-- limit_idle: end this transaction from outside when its client has been silent for too long
-- params: seconds float8
-- result: one row, nothing of use in it
-- keeps:  a stopped or paused process cannot hold its row locks for ever
SELECT set_config(
    'idle_in_transaction_session_timeout', ceil(%(seconds)s::float8 * 1000)::bigint::text, true
);
