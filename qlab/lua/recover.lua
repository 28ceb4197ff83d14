-- recover: jobs whose lease has run out go back to the head of waiting, or fail once they stalled too often.
-- USES flow finish line_up postpone come_back join
-- KEYS active failed
-- ARGV now max_stalled
-- Returns for each job {id, 1 if it failed}.
-- Invariant: one pass, so a job is given out again at the latest one check after its lease ran out; at most
-- 1,000 jobs in one call. Stalls are counted apart from attempts. A job that one more stall would fail runs alone
-- from now on: who dies with it cannot fail it for what a neighbour did.

local STALLED = 'job stalled more than allowable limit'
local at, found = now_ms(now), {}

-- Each goes to the head of waiting, so the youngest comes first and the oldest ends up in front.
local function youngest_first(a, b)
  if a.ms ~= b.ms then return a.ms > b.ms end
  return a.n > b.n
end

local expired = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', active, '-inf', at, 'LIMIT', 0, 1000)) do
  local birth = redis.call('HGET', job .. id, 'birth')
  if birth then
    local ms, count = string.match(birth, '(%d+)-(%d+)')
    expired[#expired + 1] = {id = id, ms = tonumber(ms), n = tonumber(count)}
  else
    redis.call('ZREM', active, id) -- its hash was deleted from outside (an eviction): there is nothing left to run
  end
end
table.sort(expired, youngest_first)

for _, one in ipairs(expired) do
  local id = one.id
  local old = redis.call('HMGET', job .. id, 'worker', 'claim', 'keep_failed', 'parent', 'on_failure')
  redis.call('ZREM', active, id)
  emit('stalled', id, at, 'worker', old[1], 'claim', old[2])
  local stalls = redis.call('HINCRBY', job .. id, 'stalled_counter', 1)
  local too_often = stalls > tonumber(max_stalled)
  if too_often then
    redis.call('HSET', job .. id, 'state', 'failed', 'token', '', 'finished_at', at, 'failed_reason', STALLED)
    emit('failed', id, at)
    tell_parent(id, old[4], 'failed', STALLED, old[5])
    finish(failed, id, at, old[3] or ':')
  else
    if stalls == tonumber(max_stalled) then redis.call('HSET', job .. id, 'alone', 1) end
    come_back(id, at)
  end
  found[#found + 1] = {id, too_often and 1 or 0}
end
put_away(at)
join(at)
wake_if_work(at)
return found
