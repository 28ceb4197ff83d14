-- limit: at most `limit_max` jobs are lent in a window of `limit_ms`, by all workers together.
-- Invariant: the rule and its window live here, so no worker can go past it. A window is fixed: it begins with
-- the first job lent after the last one ended, so around its edge up to twice `limit_max` may be close together.

-- How many jobs may be lent now.
local function allowed(at)
  local rule = redis.call('HMGET', meta, 'limit_max', 'limit_ms', 'window_start', 'window_count')
  if not rule[1] then return math.huge end
  local is_over = at >= (tonumber(rule[3]) or 0) + rule[2]
  return is_over and tonumber(rule[1]) or math.max(0, rule[1] - (tonumber(rule[4]) or 0))
end

-- Count jobs that were lent; when the window is used up, the queue is shut until it ends.
local function spend(count, at)
  local rule = redis.call('HMGET', meta, 'limit_max', 'limit_ms', 'window_start', 'window_count', 'limited_until')
  if not rule[1] or count == 0 then return end
  local start, used = tonumber(rule[3]) or 0, (tonumber(rule[4]) or 0) + count
  if at >= start + rule[2] then start, used = at, count end
  redis.call('HSET', meta, 'window_start', string.format('%d', start), 'window_count', used)
  if used >= tonumber(rule[1]) then
    local until_ms = math.max(start + rule[2], tonumber(rule[5]) or 0)
    redis.call('HSET', meta, 'limited_until', string.format('%d', until_ms))
  end
end
