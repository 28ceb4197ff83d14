-- upsert_schedule: make a schedule, or change it. One that is the same already is not moved.
-- KEYS schedules schedule
-- ARGV now id spec next
-- then fields and values of the schedule
-- Returns {ms of the next tick, 1 if it was made or changed}.
-- Invariant: an id has one schedule and one next tick, however many processes upsert it.

local key = schedule .. ':' .. id
if redis.call('HGET', key, 'spec') == spec and redis.call('ZSCORE', schedules, id) then
  return {tonumber(redis.call('ZSCORE', schedules, id)), 0}
end
redis.call('DEL', key)
redis.call('HSET', key, 'spec', spec, 'count', 0, unpack(ARGV, 5))
redis.call('ZADD', schedules, next, id)
wake_one() -- somebody has to know when it ticks
return {tonumber(next), 1}
