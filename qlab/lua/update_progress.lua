-- update_progress: the holder of a job writes how far it is. It does not renew the lease.
-- ARGV now token worker id claim progress
-- Returns 'ok' or 'lock-lost'.

if not holds(id, token, claim) then
  emit('lock-lost', id, now_ms(now), 'worker', worker, 'claim', claim)
  return 'lock-lost'
end
redis.call('HSET', job .. id, 'progress', progress)
emit('progress', id, now_ms(now), 'worker', worker, 'claim', claim)
return 'ok'
