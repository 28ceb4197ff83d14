-- come_back: a job that was taken returns to the head of waiting, ahead of what was added later.
-- KEYS waiting
-- Invariant: the caller has taken it out of active and ended its token.

local function come_back(id, at)
  redis.call('LPUSH', waiting, id)
  redis.call('HSET', job .. id, 'state', 'waiting')
  emit('waiting', id, at)
end
