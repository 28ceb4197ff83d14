-- take_out: take a job that nobody holds out of its set.
-- KEYS waiting prioritized delayed waiting_children completed failed
-- Invariant: the caller has read `state` and `place` in this script, and the state is not active: a job is never
-- taken out under its worker.

local function take_out(id, state, place)
  if state == 'waiting' then
    redis.call('LREM', waiting, 1, id)
  elseif state == 'prioritized' then
    redis.call('ZREM', prioritized, place)
  elseif state == 'delayed' then
    redis.call('ZREM', delayed, place)
  else
    redis.call('ZREM', ({completed = completed, failed = failed})[state] or waiting_children, id)
  end
  redis.call('HDEL', job .. id, 'place')
end
