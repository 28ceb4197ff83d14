-- settle: a worker says how a job that it holds ended.
-- NEEDS flow finish postpone come_back
-- KEYS active completed failed
-- Invariant: only the holder (token and claim) may end a job, and it ends once; everybody else changes nothing
-- but gets 'lock-lost'. After the last `settle` of a script, `leave_active` takes the jobs out of active.

local ends, settled = {}, {}

function ends.completed(id, at, attempts, value, _, keep, worker, claim)
  redis.call('HSET', job .. id, 'state', 'completed', 'token', '', 'attempts_made', attempts, 'finished_at', at,
    'return_value', value)
  emit('completed', id, at, 'worker', worker, 'claim', claim)
  finish(completed, id, at, keep)
end

function ends.failed(id, at, attempts, reason, stack, keep, worker, claim)
  redis.call('HSET', job .. id, 'state', 'failed', 'token', '', 'attempts_made', attempts, 'finished_at', at,
    'failed_reason', reason, 'stacktrace', stack)
  emit('failed', id, at, 'worker', worker, 'claim', claim)
  finish(failed, id, at, keep)
end

-- The attempt failed and there is another one, after `delay` ms.
function ends.retrying(id, at, attempts, reason, stack, delay, worker, claim)
  redis.call('HSET', job .. id, 'attempts_made', attempts, 'failed_reason', reason, 'stacktrace', stack)
  emit('retrying', id, at, 'worker', worker, 'claim', claim)
  if tonumber(delay) > 0 then postpone(id, tonumber(delay), at, 'token', '') else come_back(id, at) end
end

-- The handler wants to go on later, after `delay` ms: no attempt is counted.
function ends.delay(id, at, _, _, _, delay)
  postpone(id, math.max(1, tonumber(delay)), at, 'token', '')
end

-- The worker gives the job back unfinished (it is shutting down, or the queue is limited): no attempt is counted.
ends['put-back'] = come_back

local function settle(kind, id, claim, at, token, worker, attempts, text, stack, extra)
  local held = redis.call('HMGET', job .. id, 'token', 'claim', 'failed_reason', 'parent')
  if held[1] ~= token or held[2] ~= claim then
    emit('lock-lost', id, at, 'worker', worker, 'claim', claim)
    return 'lock-lost'
  end
  -- What an earlier attempt left behind is no part of a success.
  if held[3] and kind == 'completed' then redis.call('HDEL', job .. id, 'failed_reason', 'stacktrace') end
  ends[kind](id, at, attempts, text, stack, extra, worker, claim)
  if held[4] and (kind == 'completed' or kind == 'failed') then
    tell_parent(id, held[4], kind, text, redis.call('HGET', job .. id, 'on_failure'))
  end
  settled[#settled + 1] = id
  return 'ok'
end

local function leave_active()
  if #settled > 0 then redis.call('ZREM', active, unpack(settled)) end
end
