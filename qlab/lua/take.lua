-- take: lend up to `want` jobs (1,000 or less) to a worker, each with a new claim and a lease.
-- NEEDS line_up
-- KEYS active
-- Invariant: a job is in active exactly while its hash has a token; claims of one job only rise. Jobs without a
-- priority come first, then the lowest number. The caller lends nothing while the queue is paused or limited. A
-- job that must run alone (see recover) is the only one of its trip.
-- Returns for each job {id, claim, its hash as it was before}.

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

local function read_job(id)
  local flat, stored = redis.call('HGETALL', job .. id), {}
  for n = 1, #flat, 2 do stored[flat[n]] = flat[n + 1] end
  return stored
end

local function give_back(ids, first)
  for n = #ids, first, -1 do
    local birth, priority = unpack(redis.call('HMGET', job .. ids[n], 'birth', 'priority'))
    if birth then line_up(ids[n], priority, true) end
  end
end

local function take(want, at, lock, token, worker)
  local taken, leases = {}, {}
  local ids = next_ids(want)
  for n, id in ipairs(ids) do
    local stored = read_job(id)
    if stored.alone and #taken > 0 then give_back(ids, n) break end
    if stored.birth then
      local claim = tostring((stored.claim or 0) + 1)
      redis.call('HSET', job .. id, 'state', 'active', 'token', token, 'claim', claim, 'worker', worker,
        'processed_at', at)
      emit('active', id, at, 'worker', worker, 'claim', claim)
      leases[#leases + 1] = at + lock
      leases[#leases + 1] = id
      taken[#taken + 1] = {id, claim, stored}
    end
    if stored.alone then give_back(ids, n + 1) break end
  end
  if #taken > 0 then redis.call('ZADD', active, unpack(leases)) end
  return taken
end
