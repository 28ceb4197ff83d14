-- change_job: what may be done from outside to a job that no worker holds.
-- USES flow finish line_up postpone join rejoin promote take_out remove_tree
-- ARGV now verb id birth replays delay
-- Returns 'ok', or why not: 'gone', 'replayed', 'active', the state that the verb does not fit, or 'child-active' or
-- 'child-failed' with the child's name.
-- Invariant: a job is removed, replayed or moved in one step, or not at all; the birth must be the one that the
-- caller saw, so another job with the same id is left alone. A replay is of an ending that the caller knows of:
-- `replays` must be what it saw, so of many who replay one dead letter only one does, even if it ends in between.

local at, key = now_ms(now), job .. id
local fits = {
  remove = {waiting = 1, prioritized = 1, delayed = 1, ['waiting-children'] = 1, completed = 1, failed = 1},
  retry = {failed = 1}, rerun = {completed = 1}, delay = {delayed = 1}, promote = {delayed = 1},
}

local now_is = redis.call('HMGET', key, 'state', 'birth', 'place', 'priority', 'replays', 'parent', 'waits')
local parent, waits = now_is[6], now_is[7]
if not now_is[1] or now_is[2] ~= birth then return 'gone' end
if (verb == 'retry' or verb == 'rerun') and (now_is[5] or '0') ~= replays then return 'replayed' end
if not fits[verb][now_is[1]] then return now_is[1] end
local failed_by = verb == 'retry' and waits and culprit(id)
if failed_by then return 'child-failed ' .. failed_by end

if verb == 'remove' then
  local names, held = tree(id)
  if not names then return 'child-active ' .. held end
  remove_tree(names, at)
  join(at)
elseif verb == 'promote' then
  promote_one(now_is[3], at)
else
  take_out(id, now_is[1], now_is[3])
end
if verb == 'delay' then
  postpone(id, tonumber(delay), at)
elseif verb == 'retry' or verb == 'rerun' then
  -- A replay starts from nothing; what happened before stays readable until the job ends again.
  redis.call('HINCRBY', key, 'replays', 1)
  redis.call('HSET', key, 'attempts_made', 0, 'stalled_counter', 0)
  redis.call('HDEL', key, 'finished_at', 'return_value', 'progress', 'alone')
  if waits then
    wait_again(id, at)
  else
    line_up(id, now_is[4], false)
    emit('waiting', id, at)
  end
  if verb == 'retry' then rejoin(id, parent, redis.call('HGET', key, 'on_failure'), at) end
end
wake_if_work(at)
return 'ok'
