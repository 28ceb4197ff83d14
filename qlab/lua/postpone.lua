-- postpone: put a job into delayed.
-- KEYS delayed sequence
-- Invariant: the member is `<sequence>:<id>`, so jobs due in the same millisecond keep their order; the hash's
-- `place` names the member. What follows `at` are more fields for the hash. If the job is now the first one due, a worker is told to look at the time again.

local function postpone(id, delay, at, ...)
  local member = string.format('%016d:%s', redis.call('INCR', sequence), id)
  redis.call('ZADD', delayed, at + delay, member)
  redis.call('HSET', job .. id, 'state', 'delayed', 'place', member, ...)
  emit('delayed', id, at)
  if redis.call('ZRANK', delayed, member) == 0 then wake_one() end
end
