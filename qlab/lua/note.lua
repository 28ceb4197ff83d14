-- note: the holder of a job writes into it while it works: how far it is, other data, a line of its log.
-- ARGV now token worker id claim what value
-- Returns 'ok' or 'lock-lost'.
-- Invariant: only the holder writes. It does not renew the lease. A log keeps its latest 16,000 bytes, whole lines.

local LOG_BYTES = 16000

if not holds(id, token, claim) then
  emit('lock-lost', id, now_ms(now), 'worker', worker, 'claim', claim)
  return 'lock-lost'
end
if what == 'log' then
  value = (redis.call('HGET', job .. id, 'log') or '') .. value .. '\n'
  if #value > LOG_BYTES then value = string.sub(value, string.find(value, '\n', #value - LOG_BYTES, true) + 1) end
end
redis.call('HSET', job .. id, what, value)
if what == 'progress' then emit('progress', id, now_ms(now), 'worker', worker, 'claim', claim) end
return 'ok'
