-- enqueue: put a new job into waiting, or into delayed.
-- NEEDS postpone
-- KEYS waiting
-- Invariant: a job's hash and its place in exactly one set appear together; an existing id changes nothing.
-- Returns the job's birth (the id of its `added` event) and 1 if a job with this id exists already, else 0.

local function enqueue(id, delay, at, fields)
  local born = redis.call('HGET', job .. id, 'birth')
  if born then return born, 1 end
  local birth = emit('added', id, at)
  redis.call('HSET', job .. id, 'state', 'waiting', 'birth', birth, 'added_at', at, unpack(fields))
  if delay > 0 then
    postpone(id, delay, at)
  else
    redis.call('RPUSH', waiting, id)
  end
  return birth, 0
end
