-- idempotency_table: one row for each effect that must not happen twice
-- params: none
-- result: nothing
-- keeps:  PENDING rows have a lock that ends and no result; DONE rows have a result and never change again
-- `result` is json, not jsonb: jsonb would turn 1e22 into an integer and drop the sign of -0.0.
CREATE TABLE IF NOT EXISTS idempotency_key (
    key          text        CONSTRAINT idempotency_key_pkey PRIMARY KEY,
    status       text        NOT NULL,
    locked_until timestamptz NOT NULL,
    lock_token   uuid        NOT NULL,
    request_hash text        NOT NULL,
    result       json,
    created_at   timestamptz NOT NULL,
    done_at      timestamptz,
    CONSTRAINT idempotency_key_length CHECK (char_length(key) BETWEEN 1 AND 255),
    CONSTRAINT idempotency_key_status CHECK (status IN ('PENDING', 'DONE')),
    CONSTRAINT idempotency_key_done_has_result
        CHECK ((status = 'DONE') = (result IS NOT NULL) AND (status = 'DONE') = (done_at IS NOT NULL))
);
