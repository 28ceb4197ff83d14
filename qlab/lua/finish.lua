-- finish: a job has ended for good; keep it in completed or failed, or remove it and keep its result a while.
-- NEEDS flow
-- KEYS completed failed results results_old
-- Invariant: retention of a set is applied when a job enters it, at most 1,000 removals in one call. The result
-- of a removed job, which a waiter may still ask for, lives for one to two minutes, and for at most the latest
-- 2,000 of them or 8 MB: when `results` is full (its field `bytes` counts) or a minute old it becomes
-- `results_old`, and the one before is dropped.

local RESULT_MS, RESULT_MAX, RESULT_BYTES = 60000, 1000, 4e6
local rules, kept_bytes = {}, 0

-- keep is `age in ms:count`, either part empty for "no limit"; count 0 removes just the job itself. Jobs with
-- the same rule are put away together: after its last `finish` a script calls `put_away`, then `join`.
local function finish(set, id, at, keep)
  local same = rules[set .. keep] or {set = set, keep = keep, ids = {}, members = {}}
  rules[set .. keep] = same
  same.ids[#same.ids + 1] = id
  same.members[#same.members + 1] = at
  same.members[#same.members + 1] = id
end

-- Results are kept by birth: another job with the same id never answers for this one.
local function remove_finished(ids)
  if #ids == 0 then return end
  local kept = {}
  for n, id in ipairs(ids) do
    ids[n] = job .. id
    local fields = redis.call('HMGET', ids[n], 'birth', 'state', 'return_value', 'failed_reason', 'parent')
    leave_flow(id, fields[5])
    if fields[1] then
      local text = fields[2] .. ':' .. (fields[3] or fields[4] or '')
      kept_bytes = kept_bytes + #text
      kept[#kept + 1] = fields[1]
      kept[#kept + 1] = text
    end
  end
  if #kept > 0 then redis.call('HSET', results, unpack(kept)) end
  redis.call('DEL', unpack(ids))
end

local function turn_results_over()
  local left = redis.call('PTTL', results)
  local bytes = kept_bytes > 0 and redis.call('HINCRBY', results, 'bytes', kept_bytes) or 0
  if left == -1 then
    redis.call('PEXPIRE', results, 2 * RESULT_MS)
  elseif left >= 0 and left < RESULT_MS or bytes > RESULT_BYTES or redis.call('HLEN', results) > RESULT_MAX then
    redis.call('UNLINK', results_old) -- a large hash is freed outside this script
    redis.call('RENAME', results, results_old)
  end
end

local function retain(set, age, count, at)
  if count ~= '' then
    local excess = math.min(redis.call('ZCARD', set) - tonumber(count), 1000)
    if excess > 0 then
      remove_finished(redis.call('ZRANGE', set, 0, excess - 1))
      redis.call('ZREMRANGEBYRANK', set, 0, excess - 1)
    end
  end
  if age ~= '' then
    local old = redis.call('ZRANGEBYSCORE', set, '-inf', at - tonumber(age), 'LIMIT', 0, 1000)
    if #old > 0 then
      redis.call('ZREMRANGEBYRANK', set, 0, #old - 1)
      remove_finished(old)
    end
  end
end

local function put_away(at)
  for _, same in pairs(rules) do
    local age, count = string.match(same.keep, '^(%d*):(%d*)$')
    if count == '0' then
      remove_finished(same.ids)
    else
      redis.call('ZADD', same.set, unpack(same.members))
      retain(same.set, age, count, at)
    end
  end
  if next(rules) then turn_results_over() end
  rules, kept_bytes = {}, 0
end
