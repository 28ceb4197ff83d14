-- take: lend up to `want` waiting jobs to a worker, each with a new claim and a lease.
-- KEYS waiting active
-- FIELDS name data attempts attempts_made stalled_counter backoff keep_completed keep_failed birth added_at
-- Invariant: a job is in active exactly while its hash has a token; claims of one job only rise.

local function take(want, at, lock, token, worker)
  local taken = {}
  if want == 0 then return taken end
  for _, id in ipairs(redis.call('LPOP', waiting, want) or {}) do
    local fields = redis.call('HMGET', job .. id, unpack(FIELDS))
    if fields[1] then
      local claim = redis.call('HINCRBY', job .. id, 'claim', 1)
      redis.call('HSET', job .. id, 'state', 'active', 'token', token, 'worker', worker, 'processed_at', at)
      redis.call('ZADD', active, at + lock, id)
      emit('active', id, at, 'worker', worker, 'claim', claim)
      taken[#taken + 1] = {id, claim, fields}
    end
  end
  return taken
end

-- The job as `take` gave it, for a worker that did not see the reply.
local function taken_before(id, claim)
  return {id, tonumber(claim), redis.call('HMGET', job .. id, unpack(FIELDS))}
end
