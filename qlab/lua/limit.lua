-- limit: at most `limit_max` jobs are lent in a window of `limit_ms`, by all workers together.
-- NEEDS line_up
-- Invariant: the rule and its window live here, so no worker can go past it. A window is fixed: it begins with
-- the first job lent after the last one ended, so around its edge up to twice `limit_max` may be close together.

-- Nil if there is no rule; else the most, how many of them are used up, and the window's start and length in ms.
local function window(at)
  local _, _, most, length, start, used = gate()
  if not most then return nil end
  start, used = tonumber(start) or 0, tonumber(used) or 0
  if at >= start + length then start, used = at, 0 end
  return tonumber(most), used, start, tonumber(length)
end

local function allowed(at)
  local most, used = window(at)
  return most and math.max(0, most - used) or math.huge
end

-- Count jobs that were lent; when the window is used up, the queue is shut until it ends (see shut_for).
local function spend(count, at)
  local most, used, start = window(at)
  if not most or count == 0 then return end
  redis.call('HSET', meta, 'window_start', string.format('%d', start), 'window_count', used + count)
  gates[meta] = nil
end
