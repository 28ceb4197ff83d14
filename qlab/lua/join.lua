-- join: a parent hears how a child ended. The last child that it waits for releases it; one that failed does what
-- the child's policy says.
-- NEEDS flow finish line_up postpone
-- KEYS waiting_children failed children pending
-- Invariant: `pending` is the set of children that the parent waits for, so a child counts once however often it
-- ends. The parent is released once: its field `waits` goes, and from then on no child changes its state.
-- `children` keeps a word for each child: '=' and its result, '!' and its reason, or 'x' and its reason if that
-- failed the parent; a child that failed stays pending under the policies fail_parent and wait.

local function release(id, at)
  local own = redis.call('HMGET', job .. id, 'priority', 'delay')
  redis.call('ZREM', waiting_children, id)
  redis.call('HDEL', job .. id, 'waits')
  if own[2] then return postpone(id, tonumber(own[2]), at) end
  line_up(id, own[1], false)
  emit('waiting', id, at)
end

local function fail_parent(id, child, text, at)
  local own = redis.call('HMGET', job .. id, 'keep_failed', 'parent', 'on_failure')
  if #text > 2000 then text = string.match(text, '^child %S+ failed: (.*)$') or text end -- in a deep tree
  local reason = 'child ' .. child .. ' failed: ' .. text
  redis.call('ZREM', waiting_children, id)
  redis.call('HSET', job .. id, 'state', 'failed', 'finished_at', at, 'failed_reason', reason)
  emit('failed', id, at)
  tell_parent(id, own[2], 'failed', reason, own[3])
  finish(failed, id, at, own[1] or ':')
  put_away(at)
end

local function hear(child, id, how, text, policy, at)
  local waits_for, words, fails = pending .. ':' .. id, children .. ':' .. id, how == 'failed'
  if redis.call('SISMEMBER', waits_for, child) == 0 then return end
  if not fails or policy ~= 'fail_parent' and policy ~= 'wait' then redis.call('SREM', waits_for, child) end
  if how == 'removed' or fails and policy == 'remove_dependency' then
    redis.call('HDEL', words, child)
  else
    redis.call('HSET', words, child, (not fails and '=' or policy == 'fail_parent' and 'x' or '!') .. text)
  end
  if redis.call('HGET', job .. id, 'state') ~= 'waiting-children' then return end
  if fails and policy == 'fail_parent' then
    fail_parent(id, child, text, at)
  elseif fails and policy == 'continue_parent' or redis.call('SCARD', waits_for) == 0 then
    release(id, at)
  end
end

-- After the last `put_away` of a script. A parent that fails is added to `ended`: its own parent hears too.
local function join(at)
  if #ended == 0 then return end
  local home, n = here(), 1
  while ended[n] do
    local child, parent, how, text, policy = unpack(ended[n], 1, 5)
    local queue, id = split(parent)
    visit(queue)
    hear(child, id, how, text, policy, at)
    if queue ~= home then wake_if_work(at) end -- at home the script does so itself
    n = n + 1
  end
  ended = {}
  visit(home)
end
