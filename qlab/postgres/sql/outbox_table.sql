-- outbox_table: one row for each message that has to leave the database
-- params: none
-- result: nothing
-- keeps:  a row is live, published or dead; a dead one says why
-- `payload` is json, not jsonb: jsonb would turn 1e22 into an integer and drop the sign of -0.0.
CREATE TABLE IF NOT EXISTS outbox (
    id              bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT outbox_pkey PRIMARY KEY,
    topic           text        NOT NULL,
    payload         json        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at    timestamptz,
    attempts        integer     NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dead_at         timestamptz,
    last_error      text,
    CONSTRAINT outbox_topic_length CHECK (char_length(topic) BETWEEN 1 AND 255),
    CONSTRAINT outbox_attempts_not_negative CHECK (attempts >= 0),
    CONSTRAINT outbox_one_end CHECK (published_at IS NULL OR dead_at IS NULL),
    CONSTRAINT outbox_dead_says_why CHECK (dead_at IS NULL OR last_error IS NOT NULL)
);
