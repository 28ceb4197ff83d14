-- settle: a worker says how a job that it holds ended.
-- NEEDS finish postpone come_back
-- KEYS active completed failed
-- Invariant: only the holder (token and claim) may end a job, and it ends once; everybody else changes nothing
-- but gets 'lock-lost'.

local ends = {}

function ends.completed(id, at, attempts, value, _, keep, who)
  redis.call('HSET', job .. id, 'state', 'completed', 'attempts_made', attempts, 'finished_at', at, 'return_value', value)
  redis.call('HDEL', job .. id, 'token', 'failed_reason', 'stacktrace')
  emit('completed', id, at, unpack(who))
  finish(completed, id, at, keep)
end

function ends.failed(id, at, attempts, reason, stack, keep, who)
  redis.call('HSET', job .. id, 'state', 'failed', 'attempts_made', attempts, 'finished_at', at,
    'failed_reason', reason, 'stacktrace', stack)
  redis.call('HDEL', job .. id, 'token')
  emit('failed', id, at, unpack(who))
  finish(failed, id, at, keep)
end

-- The attempt failed and there is another one, after `delay` ms.
function ends.retrying(id, at, attempts, reason, stack, delay, who)
  redis.call('HSET', job .. id, 'attempts_made', attempts, 'failed_reason', reason, 'stacktrace', stack)
  redis.call('HDEL', job .. id, 'token')
  emit('retrying', id, at, unpack(who))
  if tonumber(delay) > 0 then postpone(id, tonumber(delay), at) else come_back(id, at) end
end

-- The handler wants to go on later, after `delay` ms: no attempt is counted.
function ends.delay(id, at, _, _, _, delay)
  redis.call('HDEL', job .. id, 'token')
  postpone(id, math.max(1, tonumber(delay)), at)
end

-- The worker gives the job back unfinished (it is shutting down, or the queue is limited): no attempt is counted.
ends['put-back'] = function(id, at)
  redis.call('HDEL', job .. id, 'token')
  come_back(id, at)
end

local function settle(kind, id, claim, at, token, worker, attempts, text, stack, extra)
  local who = {'worker', worker, 'claim', claim}
  if not holds(id, token, claim) then
    emit('lock-lost', id, at, unpack(who))
    return 'lock-lost'
  end
  redis.call('ZREM', active, id)
  ends[kind](id, at, attempts, text, stack, extra, who)
  return 'ok'
end
