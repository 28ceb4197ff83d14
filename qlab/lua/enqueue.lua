-- enqueue: put a new job into waiting, prioritized or delayed.
-- NEEDS line_up postpone
-- Invariant: a job's hash and its place in exactly one set appear together; an existing id changes nothing.
-- Returns the job's id and birth (the id of its `added` event), and 1 if the job exists already, else 0.

local function enqueue(id, delay, at, priority, fields)
  local born = redis.call('HGET', job .. id, 'birth')
  if born then return {id, born, 1} end
  local birth = emit('added', id, at)
  if delay > 0 then
    postpone(id, delay, at, 'birth', birth, 'added_at', at, unpack(fields))
  else
    line_up(id, priority, false, 'birth', birth, 'added_at', at, unpack(fields))
  end
  return {id, birth, 0}
end
