-- tick: settle one due tick of a schedule: add its jobs and move it on to its next tick.
-- USES line_up postpone enqueue
-- KEYS schedules schedule
-- ARGV now id spec nominal next
-- then for each job, as in add_jobs: id, delay, priority or '', '', 0, number of fields and values, and these
-- Returns 1, or 0 if somebody else was first or the schedule was changed.
-- Invariant: a nominal tick is settled once, whatever the number of processes.

if redis.call('ZSCORE', schedules, id) ~= nominal or redis.call('HGET', schedule .. ':' .. id, 'spec') ~= spec then
  return 0
end
local at, i = now_ms(now), 6
while ARGV[i] do
  local n = tonumber(ARGV[i + 5])
  enqueue(ARGV[i], 0, at, ARGV[i + 2] ~= '' and ARGV[i + 2] or nil, unpack(ARGV, i + 6, i + 5 + n))
  redis.call('HINCRBY', schedule .. ':' .. id, 'count', 1)
  i = i + 6 + n
end
redis.call('ZADD', schedules, next, id)
wake_if_work(at)
return 1
