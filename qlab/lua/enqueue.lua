-- enqueue: put a new job into waiting, prioritized or delayed.
-- NEEDS line_up postpone
-- Invariant: a job's hash and its place in exactly one set appear together; an existing id changes nothing.
-- What follows `priority` are the fields of its hash. Returns its birth (the id of its `added` event), or
-- {id, birth} of the job that exists already.

local function enqueue(id, delay, at, priority, ...)
  local born = redis.call('HGET', job .. id, 'birth')
  if born then return {id, born} end
  local birth = emit('added', id, at)
  if delay > 0 then
    postpone(id, delay, at, 'birth', birth, 'added_at', at, ...)
  else
    line_up(id, priority, false, 'birth', birth, 'added_at', at, ...)
  end
  return birth
end
