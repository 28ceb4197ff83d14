-- clean: remove jobs of one state, the oldest first, at most `limit` (1,000 or less) in one call.
-- USES flow finish line_up postpone join
-- KEYS delayed waiting_children completed failed
-- ARGV now state grace limit
-- Returns the ids that were removed.
-- Invariant: only jobs that ended `grace` ms ago, or that wait where nobody holds them, are removed. The children
-- of one that waits for them are left alone: they may be in other queues.

local at, most, ids = now_ms(now), tonumber(limit), {}
local sets = {
  prioritized = prioritized, delayed = delayed, completed = completed, failed = failed,
  ['waiting-children'] = waiting_children,
}
if state == 'waiting' then
  ids = redis.call('LPOP', waiting, most) or {}
elseif state == 'completed' or state == 'failed' then
  ids = redis.call('ZRANGEBYSCORE', sets[state], '-inf', at - tonumber(grace), 'LIMIT', 0, most)
  if #ids > 0 then redis.call('ZREM', sets[state], unpack(ids)) end
else
  local popped = redis.call('ZPOPMIN', sets[state], most)
  for n = 1, #popped, 2 do ids[#ids + 1] = string.match(popped[n], '[^:]*$') end
end
for _, id in ipairs(ids) do
  leave_flow(id, redis.call('HGET', job .. id, 'parent'))
  redis.call('DEL', job .. id)
  emit('removed', id, at)
end
join(at)
wake_if_work(at)
return ids
