-- take: lend up to `want` jobs to a worker, each with a new claim and a lease.
-- NEEDS line_up
-- KEYS active
-- FIELDS name data claim attempts attempts_made stalled_counter backoff timeout keep_completed keep_failed birth added_at
-- Invariant: a job is in active exactly while its hash has a token; claims of one job only rise. Jobs without a
-- priority come first, then the lowest number. A paused or limited queue lends nothing.

local function next_ids(want)
  local ids = redis.call('LPOP', waiting, want) or {}
  if #ids < want then
    local popped = redis.call('ZPOPMIN', prioritized, want - #ids)
    for n = 1, #popped, 2 do
      ids[#ids + 1] = id_of(popped[n])
      redis.call('HDEL', job .. ids[#ids], 'place')
    end
  end
  return ids
end

local function take(want, at, lock, token, worker)
  local taken, leases = {}, {}
  if want == 0 or shut_for(at) > 0 then return taken end
  for _, id in ipairs(next_ids(want)) do
    local fields = redis.call('HMGET', job .. id, unpack(FIELDS))
    if fields[1] then
      fields[3] = tostring((tonumber(fields[3]) or 0) + 1)
      redis.call('HSET', job .. id, 'state', 'active', 'token', token, 'claim', fields[3], 'worker', worker,
        'processed_at', at)
      emit('active', id, at, 'worker', worker, 'claim', fields[3])
      leases[#leases + 1] = at + lock
      leases[#leases + 1] = id
      taken[#taken + 1] = {id, fields}
    end
  end
  if #taken > 0 then redis.call('ZADD', active, unpack(leases)) end
  return taken
end

-- The job as `take` gave it, for a worker that did not see the reply.
local function taken_before(id)
  return {id, redis.call('HMGET', job .. id, unpack(FIELDS))}
end
