-- deduplicate: while a key is taken, adds with the same key add nothing.
-- KEYS deduplication
-- Invariant: the key lives `ttl` ms on the server, whatever becomes of the job.

-- The reply for a duplicate, nil if the key is free (it is then taken for `id`).
local function taken_by_another(key, ttl, id)
  if redis.call('SET', deduplication .. ':' .. key, id, 'NX', 'PX', ttl) then return nil end
  local first = redis.call('GET', deduplication .. ':' .. key)
  return {first, redis.call('HGET', job .. first, 'birth') or ''}
end
