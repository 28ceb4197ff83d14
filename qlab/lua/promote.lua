-- promote: move the delayed jobs that are due to the tail of waiting, at most 1,000 in one call.
-- KEYS waiting delayed
-- Invariant: no job starts before its time on the server's clock; equal times keep their order.

local function promote(at)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', at, 'LIMIT', 0, 1000)
  for _, member in ipairs(due) do
    local id = string.sub(member, string.find(member, ':', 1, true) + 1)
    redis.call('ZREM', delayed, member)
    redis.call('RPUSH', waiting, id)
    redis.call('HSET', job .. id, 'state', 'waiting')
    redis.call('HDEL', job .. id, 'place')
    emit('waiting', id, at)
  end
end

-- Milliseconds until the next delayed job is due, -1 if there is none.
local function until_next_due(at)
  local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if not first[2] then return -1 end
  return math.max(0, tonumber(first[2]) - at)
end
