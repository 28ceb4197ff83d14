-- due_schedules: what ticks now.
-- KEYS schedules schedule
-- ARGV now
-- Returns {ms now, for each schedule that is due {id, nominal time, fields and values}}, at most 100.
-- Invariant: reads only; what is due is settled by `tick`.

local at, due = now_ms(now), {}
for n, id in ipairs(redis.call('ZRANGEBYSCORE', schedules, '-inf', at, 'LIMIT', 0, 100)) do
  due[n] = {id, redis.call('ZSCORE', schedules, id), redis.call('HGETALL', schedule .. ':' .. id)}
end
return {at, due}
