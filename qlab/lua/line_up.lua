-- line_up: put a job where workers take from: waiting, or prioritized if it has a priority.
-- KEYS waiting prioritized sequence
-- Invariant: within one priority the order is that of arrival; `head` puts a job in front of its class. The
-- member of prioritized is `<place in line>:<id>`, and the hash's `place` names it. What follows `head` are more
-- fields for the hash, written with its state.

local function line_up(id, priority, head, ...)
  if not priority then
    redis.call(head and 'LPUSH' or 'RPUSH', waiting, id)
    redis.call('HSET', job .. id, 'state', 'waiting', ...)
    return
  end
  local n = redis.call('INCR', sequence)
  -- '-' sorts before every digit, and the later of two that go to the head sorts before the earlier.
  local member = (head and string.format('-%016d', 1e15 - n) or string.format('%016d', n)) .. ':' .. id
  redis.call('ZADD', prioritized, priority, member)
  redis.call('HSET', job .. id, 'state', 'prioritized', 'place', member, ...)
end

local function id_of(member)
  return string.sub(member, string.find(member, ':', 1, true) + 1)
end

-- What governs a whole queue, read once for each script; whoever writes it sets `gates[meta]` to nil.
local gates = {}
local function gate()
  gates[meta] = gates[meta] or redis.call('HMGET', meta, 'paused', 'limited_until', 'limit_max', 'limit_ms',
    'window_start', 'window_count')
  return unpack(gates[meta])
end

-- Milliseconds for which the queue lends nothing: 0 if it is open, math.huge while it is paused. A window that is
-- used up (see limit) shuts it by the rule of now, so a rule that is changed counts at once.
local function shut_for(at)
  local paused, limited_until, most, length, start, used = gate()
  local full = most and (tonumber(used) or 0) >= tonumber(most) and start + length or 0
  return paused and math.huge or math.max(0, full - at, (tonumber(limited_until) or 0) - at)
end

-- The longest limit holds: a shorter one that comes later does not open the queue early.
local function shut_until(ms)
  local _, before = gate()
  redis.call('HSET', meta, 'limited_until', string.format('%d', math.max(ms, tonumber(before) or 0)))
  gates[meta] = nil
end

-- Tell an idle worker if there is something that it may take.
local function wake_if_work(at)
  if somebody_is_told() then return end
  if (redis.call('LLEN', waiting) > 0 or redis.call('ZCARD', prioritized) > 0) and shut_for(at) == 0 then wake_one() end
end
