-- remove_tree: delete a job and all that it waited for or heard of, or nothing.
-- NEEDS flow take_out
-- KEYS children pending
-- Invariant: not one job of the tree is active, so none is deleted under its worker. The name of a child may have
-- been given to another job since: only what names this very parent belongs to the tree.

-- The names of the tree, the job itself first; or nil and a job below it that is active.
local function tree(id)
  local home, names, n, seen = here(), {name_of(id)}, 1, {}
  while names[n] do
    local queue, one = split(names[n])
    visit(queue)
    local below = {redis.call('SMEMBERS', pending .. ':' .. one), redis.call('HKEYS', children .. ':' .. one)}
    for _, list in ipairs(below) do
      for _, child in ipairs(list) do
        local there, its_id = split(child)
        visit(there)
        local is = redis.call('HMGET', job .. its_id, 'state', 'parent')
        if is[2] == names[n] and not seen[child] then -- one that failed is in both
          seen[child] = true
          if is[1] == 'active' then
            visit(home)
            return nil, child
          end
          names[#names + 1] = child
        end
      end
      visit(queue)
    end
    n = n + 1
  end
  visit(home)
  return names
end

local function remove_tree(names, at)
  local home = here()
  for _, name in ipairs(names) do
    local queue, id = split(name)
    visit(queue)
    local is = redis.call('HMGET', job .. id, 'state', 'place', 'parent')
    take_out(id, is[1], is[2])
    redis.call('DEL', job .. id)
    leave_flow(id, is[3])
    emit('removed', id, at)
  end
  visit(home)
end
