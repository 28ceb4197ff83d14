-- outbox_listen: be told when somebody commits a message
-- params: none
-- result: nothing
-- keeps:  only a hint: notifications are lost while nobody listens, so the relay polls too
LISTEN qlab_outbox;
