-- finish: a job has ended for good; keep it in completed or failed, or remove it and keep its result a while.
-- NEEDS flow
-- KEYS completed failed results results_old
-- Invariant: retention of a set is applied when a job enters it, at most 1,000 removals in one call. The result
-- of a removed job, which a waiter may still ask for, lives for one to two minutes, and for at most the latest
-- 2,000 of them or 8 MB: when `results` is full (its field `bytes` counts, a small result as RESULT_LEAST) or a
-- minute old it becomes `results_old`, and the one before is dropped.

local RESULT_MS, RESULT_BYTES, RESULT_LEAST = 60000, 4e6, 4e3
local rules = {}

-- keep is `age in ms:count`, either part empty for "no limit"; count 0 removes just the job itself. Jobs with
-- the same rule are put away together: after its last `finish` a script calls `put_away`, then `join`.
local function finish(set, id, at, keep)
  local same = rules[set .. keep] or {set = set, keep = keep, ids = {}, members = {}}
  rules[set .. keep] = same
  same.ids[#same.ids + 1] = id
  same.members[#same.members + 1] = at
  same.members[#same.members + 1] = id
end

local function keep_results(kept, size)
  local left, before = redis.call('PTTL', results), tonumber(redis.call('HGET', results, 'bytes')) or 0
  if before > 0 and (left < RESULT_MS or before + size > RESULT_BYTES) then
    redis.call('UNLINK', results_old) -- a large hash is freed outside this script
    redis.call('RENAME', results, results_old)
    before = 0
  end
  redis.call('HSET', results, 'bytes', before + size, unpack(kept))
  if before == 0 then redis.call('PEXPIRE', results, 2 * RESULT_MS) end
end

-- Results are kept by birth: another job with the same id never answers for this one.
local function remove_finished(ids)
  local kept, size = {}, 0
  for n, id in ipairs(ids) do
    ids[n] = job .. id
    local birth, value, reason, parent =
      unpack(redis.call('HMGET', ids[n], 'birth', 'return_value', 'failed_reason', 'parent'))
    leave_flow(id, parent)
    if birth then
      local text = value and 'completed:' .. value or 'failed:' .. (reason or '')
      size = size + math.max(#text, RESULT_LEAST)
      kept[#kept + 1] = birth
      kept[#kept + 1] = text
    end
  end
  if #ids > 0 then redis.call('DEL', unpack(ids)) end
  if #kept > 0 then keep_results(kept, size) end
end

local function retain(set, age, count, at)
  local excess = count ~= '' and redis.call('ZCARD', set) - tonumber(count) or 0
  if age ~= '' then excess = math.max(excess, redis.call('ZCOUNT', set, '-inf', at - tonumber(age))) end
  excess = math.min(excess, 1000)
  if excess < 1 then return end
  remove_finished(redis.call('ZRANGE', set, 0, excess - 1))
  redis.call('ZREMRANGEBYRANK', set, 0, excess - 1)
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
  rules = {}
end
