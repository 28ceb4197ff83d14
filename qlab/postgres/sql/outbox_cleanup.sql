-- outbox_cleanup: delete messages that left long ago
-- params: keep float8 (seconds), batch int, now timestamptz or null (then the server's clock)
-- result: at most `batch` rows touched; fewer = there are no more
-- keeps:  what was not published stays, however old it is: it is work that is still to do
DELETE FROM outbox
WHERE id IN (
    SELECT id
    FROM outbox
    WHERE published_at < coalesce(%(now)s::timestamptz, clock_timestamp())
        - make_interval(secs => %(keep)s::float8)
    ORDER BY published_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
);
