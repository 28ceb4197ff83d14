-- rejoin: a job that had failed runs again, so its parent waits for it again, and so on up the tree.
-- NEEDS flow join
-- KEYS waiting_children failed children pending
-- Invariant: only a parent that was not released yet (it has `waits`) is changed. One that its children failed
-- comes back once none of these is failed any more, so it never waits for a job that nobody will run.

-- A child that failed this job and has not been run again; nil if there is none.
local function culprit(id)
  for _, child in ipairs(redis.call('SMEMBERS', pending .. ':' .. id)) do
    if string.sub(redis.call('HGET', children .. ':' .. id, child) or '', 1, 1) == 'x' then return child end
  end
end

local function wait_again(id, at)
  if redis.call('SCARD', pending .. ':' .. id) == 0 then return release(id, at) end
  redis.call('ZADD', waiting_children, at, id)
  redis.call('HSET', job .. id, 'state', 'waiting-children')
  redis.call('HDEL', job .. id, 'finished_at', 'failed_reason')
  emit('waiting-children', id, at)
end

local function rejoin(id, parent, policy, at)
  local home = here()
  while parent and parent ~= '' and policy ~= 'remove_dependency' do
    local child, queue, upper = name_of(id), split(parent)
    visit(queue)
    local known = redis.call('HGET', children .. ':' .. upper, child) or ''
    local is = redis.call('HMGET', job .. upper, 'state', 'waits', 'parent', 'on_failure')
    -- Without a word of its failure it is no child of this parent, but of an earlier one with the same id.
    if not is[2] or not string.find(known, '^[!x]') then break end
    redis.call('SADD', pending .. ':' .. upper, child)
    redis.call('HDEL', children .. ':' .. upper, child)
    if is[1] ~= 'failed' or culprit(upper) then break end
    redis.call('ZREM', failed, upper)
    wait_again(upper, at)
    id, parent, policy = upper, is[3], is[4]
  end
  visit(home)
end
