-- clean: remove jobs of one state, the oldest first, at most `limit` (1,000 or less) in one call.
-- USES take_out
-- ARGV now state grace limit
-- Returns the ids that were removed.
-- Invariant: only jobs that have been in completed or failed for `grace` ms, or are in a set where nobody holds
-- them, are removed.

local at, most, ids = now_ms(now), tonumber(limit), {}
local sets = {waiting = waiting, prioritized = prioritized, delayed = delayed, completed = completed, failed = failed}
if state == 'waiting' then
  ids = redis.call('LRANGE', waiting, 0, most - 1)
elseif state == 'completed' or state == 'failed' then
  ids = redis.call('ZRANGEBYSCORE', sets[state], '-inf', at - tonumber(grace), 'LIMIT', 0, most)
else
  for n, member in ipairs(redis.call('ZRANGE', sets[state], 0, most - 1)) do
    ids[n] = string.sub(member, string.find(member, ':', 1, true) + 1)
  end
end
for _, id in ipairs(ids) do
  take_out(id)
  redis.call('DEL', job .. id)
  emit('removed', id, at)
end
return ids
