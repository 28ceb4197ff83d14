-- upsert_schedule: make a schedule, or change it. One that is the same already is not moved.
-- KEYS schedules schedule
-- ARGV now id spec next
-- then fields and values of the schedule
-- Returns {ms of the next tick, its anchor, how many jobs it has made}.
-- Invariant: an id has one schedule and one next tick, however many processes upsert it. Only another rhythm moves
-- that tick: who upserts other data more often than it ticks must not put it off for ever.

local key = schedule .. ':' .. id
local function read()
  return redis.call('HMGET', key, 'pattern', 'tz', 'every', 'anchor', 'count', 'spec')
end

local tick, old = redis.call('ZSCORE', schedules, id), read()
if not tick or old[6] ~= spec then
  redis.call('DEL', key)
  redis.call('HSET', key, 'spec', spec, 'count', 0, unpack(ARGV, 5))
  local new = read()
  if tick and old[1] == new[1] and old[2] == new[2] and old[3] == new[3] then
    redis.call('HSET', key, 'anchor', old[4], 'count', old[5])
  else
    tick = next
    redis.call('ZADD', schedules, tick, id)
    wake_one() -- somebody has to know when it ticks
  end
end
local is = read()
return {tonumber(tick), tonumber(is[4]), tonumber(is[5])}
