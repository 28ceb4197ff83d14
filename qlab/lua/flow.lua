-- flow: names across queues, and what the parents of ended jobs still have to hear (see join).
-- KEYS children pending
-- Invariant: of every job that ends or is deleted, its parent hears in the same script, whoever ended it. A job
-- in a flow has the field `parent`, `<queue>:<id>` (empty at the root); another job costs that one look.

local ended = {}

local function here()
  return string.match(job, '{([^{}]*)}:job:$')
end

-- From now on the keys are those of the queue; `enter` is made by the loader.
local function visit(queue)
  enter(string.match(job, '^(.*){') .. '{' .. queue .. '}:')
end

local function name_of(id)
  return here() .. ':' .. id
end

local function split(name)
  return string.match(name, '^(.*):(.*)$')
end

-- how is completed (text: the result), failed (text: the reason) or removed.
local function tell_parent(id, parent, how, text, policy)
  if parent and parent ~= '' then ended[#ended + 1] = {name_of(id), parent, how, text, policy} end
end

-- The job's hash is deleted.
local function leave_flow(id, parent)
  if not parent then return end
  redis.call('DEL', pending .. ':' .. id, children .. ':' .. id)
  tell_parent(id, parent, 'removed')
end
