-- take_out: take a job that nobody holds out of its set.
-- KEYS waiting prioritized delayed completed failed
-- Invariant: an active job is never taken out under its worker.
-- Returns the state that it was in, nil if there is no such job, 'active' if it is held.

local function take_out(id)
  local found = redis.call('HMGET', job .. id, 'state', 'place')
  local state, place = found[1], found[2]
  if not state or state == 'active' then return state or nil end
  if state == 'waiting' then
    redis.call('LREM', waiting, 1, id)
  elseif state == 'prioritized' then
    redis.call('ZREM', prioritized, place)
  elseif state == 'delayed' then
    redis.call('ZREM', delayed, place)
  else
    redis.call('ZREM', state == 'completed' and completed or failed, id)
  end
  redis.call('HDEL', job .. id, 'place')
  return state
end
