-- promote: move the delayed jobs that are due to the tail of their class, at most 1,000 in one call.
-- NEEDS line_up
-- KEYS delayed
-- Invariant: no job starts before its time on the server's clock; equal times keep their order.

local function promote_one(member, at)
  local id = id_of(member)
  redis.call('ZREM', delayed, member)
  local stored = redis.call('HMGET', job .. id, 'birth', 'priority')
  if not stored[1] then return end -- its hash was deleted from outside (an eviction): do not make half a job of it
  redis.call('HDEL', job .. id, 'place')
  line_up(id, stored[2], false)
  emit('waiting', id, at)
end

-- When the first delayed job is due, math.huge if there is none.
local function first_due()
  return tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or math.huge)
end

-- Returns when the first of those that stay is due.
local function promote(at)
  local due = first_due()
  if due > at then return due end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', at, 'LIMIT', 0, 1000)) do
    promote_one(member, at)
  end
  return first_due()
end

-- Milliseconds until a worker should look again without being woken: when the next delayed job is `due` or a
-- rate limit ends (`shut` ms from now, see shut_for); -1 if there is nothing to wait for.
local function until_next_look(at, shut, due)
  local soonest = math.min(shut > 0 and shut or math.huge, math.max(0, due - at))
  return soonest == math.huge and -1 or soonest
end
