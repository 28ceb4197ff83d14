-- come_back: a job that was taken returns to the head of its class, ahead of what was added later.
-- NEEDS line_up
-- Invariant: the caller takes it out of active; here its token ends.

local function come_back(id, at)
  line_up(id, redis.call('HGET', job .. id, 'priority'), true, 'token', '')
  emit('waiting', id, at)
end
