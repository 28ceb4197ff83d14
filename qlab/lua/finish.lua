-- finish: a job has ended for good; keep it in completed or failed, or remove it and keep its result a while.
-- KEYS completed failed results results_old
-- Invariant: retention of a set is applied when a job enters it, at most 1,000 removals in one call. The result
-- of a removed job, which a waiter may still ask for, lives for one to two minutes, and for at most the latest
-- 2,000 of them or 8 MB: when `results` is full (its field `bytes` counts) or a minute old it becomes
-- `results_old`, and the one before is dropped.

local RESULT_MS, RESULT_MAX, RESULT_BYTES = 60000, 1000, 4e6
local rules, kept_bytes = {}, 0

-- Results are kept by birth: another job with the same id never answers for this one.
local function keep_result(id)
  local fields = redis.call('HMGET', job .. id, 'birth', 'state', 'return_value', 'failed_reason')
  local text = fields[2] .. ':' .. (fields[3] or fields[4] or '')
  kept_bytes = kept_bytes + #text
  redis.call('HSET', results, fields[1], text)
end

local function turn_results_over()
  local left = redis.call('PTTL', results)
  local bytes = kept_bytes > 0 and redis.call('HINCRBY', results, 'bytes', kept_bytes) or 0
  if left == -1 then
    redis.call('PEXPIRE', results, 2 * RESULT_MS)
  elseif left >= 0 and left < RESULT_MS or bytes > RESULT_BYTES or redis.call('HLEN', results) > RESULT_MAX then
    redis.call('RENAME', results, results_old)
  end
end

local function remove_finished(set, ids)
  for n, id in ipairs(ids) do
    keep_result(id)
    ids[n] = job .. id
  end
  if #ids > 0 then redis.call('DEL', unpack(ids)) end
end

-- keep is `age in ms:count`, either part empty for "no limit"; count 0 removes just the job itself.
local function finish(set, id, at, keep)
  if string.sub(keep, -2) == ':0' then
    remove_finished(set, {id})
  else
    redis.call('ZADD', set, at, id)
  end
  rules[set .. ' ' .. keep] = {set, keep}
end

-- Once a script, after its last `finish`: each rule of the jobs that ended, once.
local function apply_retention(at)
  for _, rule in pairs(rules) do
    local set, age, count = rule[1], string.match(rule[2], '^(%d*):(%d*)$')
    if count ~= '' and count ~= '0' then
      local excess = math.min(redis.call('ZCARD', set) - tonumber(count), 1000)
      if excess > 0 then
        remove_finished(set, redis.call('ZRANGE', set, 0, excess - 1))
        redis.call('ZREMRANGEBYRANK', set, 0, excess - 1)
      end
    end
    if age ~= '' then
      local old = redis.call('ZRANGEBYSCORE', set, '-inf', at - tonumber(age), 'LIMIT', 0, 1000)
      if #old > 0 then
        remove_finished(set, old)
        redis.call('ZREMRANGEBYRANK', set, 0, #old - 1)
      end
    end
  end
  if next(rules) then turn_results_over() end
end
