-- add_flow: add a tree of jobs, all or none. Leaves can run at once, every other job waits for its children.
-- USES flow finish line_up postpone join enqueue deduplicate
-- KEYS waiting_children children pending
-- ARGV now key ttl
-- then for each job, the root first and parents before their children: queue, id, delay in ms, priority or '',
-- number of children and their names, number of fields and values, and these
-- Returns {'added', birth of each job}; {'duplicate', id of the root that is there, birth of it and of whatever
-- is there of the others or ''}; or, with nothing stored, {'exists', name, its state}.
-- Invariant: a flow makes all its jobs. One that exists already is no part of it: its end may be over.

local at, jobs, i = now_ms(now), {}, 4
while ARGV[i] do
  local count = tonumber(ARGV[i + 4])
  local fields = i + 6 + count
  jobs[#jobs + 1] = {
    queue = ARGV[i], id = ARGV[i + 1], delay = tonumber(ARGV[i + 2]), priority = ARGV[i + 3],
    children = {unpack(ARGV, i + 5, i + 4 + count)},
    fields = {unpack(ARGV, fields, fields - 1 + ARGV[fields - 1])},
  }
  i = fields + ARGV[fields - 1]
end

local births, clash = {}, nil
for n, one in ipairs(jobs) do
  visit(one.queue)
  local is = redis.call('HMGET', job .. one.id, 'birth', 'state')
  births[n] = is[1] or ''
  if is[1] and n > 1 then clash = clash or {'exists', name_of(one.id), is[2]} end
end
visit(jobs[1].queue)
if births[1] ~= '' then return {'duplicate', jobs[1].id, unpack(births)} end
local free = key == '' or redis.call('EXISTS', deduplication .. ':' .. key) == 0
if free and clash then return clash end
local other = key ~= '' and taken_by_another(key, ttl, jobs[1].id)
if other then return {'duplicate', other[1], other[2]} end

local function wait_for_children(one)
  births[#births + 1] = emit('added', one.id, at)
  redis.call('HSET', job .. one.id, 'state', 'waiting-children', 'waits', 1, 'birth', births[#births],
    'added_at', at, unpack(one.fields))
  if one.delay > 0 then redis.call('HSET', job .. one.id, 'delay', one.delay) end
  redis.call('SADD', pending .. ':' .. one.id, unpack(one.children))
  redis.call('ZADD', waiting_children, at, one.id)
  emit('waiting-children', one.id, at)
end

births = {}
for _, one in ipairs(jobs) do
  visit(one.queue)
  if one.children[1] then
    wait_for_children(one)
  else
    local priority = one.priority ~= '' and one.priority or nil
    births[#births + 1] = enqueue(one.id, one.delay, at, priority, unpack(one.fields))
    wake_if_work(at)
  end
end
return {'added', unpack(births)}
