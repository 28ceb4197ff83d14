-- set_gate: pause, resume or limit the whole queue, or just look again (the rule was changed).
-- USES line_up
-- ARGV now verb ms
-- Invariant: a paused or limited queue lends nothing; jobs that run go on.

local at = now_ms(now)
if verb == 'pause' then
  redis.call('HSET', meta, 'paused', at)
elseif verb == 'resume' then
  redis.call('HDEL', meta, 'paused')
elseif verb == 'limit' then
  shut_until(at + tonumber(ms))
end
if verb ~= 'pause' then wake_one() end -- somebody has to look at the time again
return 'ok'
