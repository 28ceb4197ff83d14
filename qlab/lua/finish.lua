-- finish: a job has ended for good; keep it in completed or failed, or remove it and keep its result a while.
-- KEYS completed failed results results_due
-- Invariant: retention of a set is applied when a job enters it, at most 1,000 removals in one call; the result
-- of a removed job, which a waiter may still ask for, is kept for a minute and for the latest 1,000 of them.

local RESULT_MS, RESULT_MAX = 60000, 1000
local rules = {}

-- Results are kept by birth: another job with the same id never answers for this one.
local function keep_result(id, at)
  local fields = redis.call('HMGET', job .. id, 'birth', 'state', 'return_value', 'failed_reason')
  redis.call('HSET', results, fields[1], fields[2] .. ':' .. (fields[3] or fields[4] or ''))
  redis.call('ZADD', results_due, at + RESULT_MS, fields[1])
end

local function forget_old_results(at)
  local old = redis.call('ZRANGEBYSCORE', results_due, '-inf', at, 'LIMIT', 0, 1000)
  local excess = math.min(redis.call('ZCARD', results_due) - RESULT_MAX, 1000)
  if excess > #old then old = redis.call('ZRANGE', results_due, 0, excess - 1) end
  if #old > 0 then
    redis.call('HDEL', results, unpack(old))
    redis.call('ZREM', results_due, unpack(old))
  end
end

local function remove_finished(set, ids, at)
  for _, id in ipairs(ids) do
    keep_result(id, at)
    redis.call('DEL', job .. id)
    redis.call('ZREM', set, id)
    emit('removed', id, at)
  end
end

-- keep is `age in ms:count`, either part empty for "no limit"; count 0 removes just the job itself.
local function finish(set, id, at, keep)
  if string.sub(keep, -2) == ':0' then
    keep_result(id, at)
    redis.call('DEL', job .. id)
    emit('removed', id, at)
  else
    redis.call('ZADD', set, at, id)
  end
  rules[set .. ' ' .. keep] = {set, keep}
end

-- Once a script, after its last `finish`: each rule of the jobs that ended, once.
local function apply_retention(at)
  for _, rule in pairs(rules) do
    local set, age, count = rule[1], string.match(rule[2], '^(%d*):(%d*)$')
    if count == '0' then
      forget_old_results(at)
    elseif count ~= '' then
      local excess = math.min(redis.call('ZCARD', set) - tonumber(count), 1000)
      if excess > 0 then remove_finished(set, redis.call('ZRANGE', set, 0, excess - 1), at) end
    end
    if age ~= '' then
      remove_finished(set, redis.call('ZRANGEBYSCORE', set, '-inf', at - tonumber(age), 'LIMIT', 0, 1000), at)
    end
  end
  if next(rules) and redis.call('ZCARD', results_due) > 0 then forget_old_results(at) end
end
