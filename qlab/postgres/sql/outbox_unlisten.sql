-- outbox_unlisten: stop listening, before the connection goes back to its pool
-- params: none
-- result: nothing
-- keeps:  the next user of the connection gets no notifications
UNLISTEN qlab_outbox;
