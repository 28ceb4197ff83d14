-- settle_and_take: the pump's only script. Settle what ended since the last trip, take what there is room for.
-- USES flow finish line_up postpone come_back settle join promote limit take
-- KEYS pump schedules
-- ARGV now token worker lock trip want count
-- then for each of `count` settlements (1,000 or less): kind, id, claim, attempts made, text, stack, extra (see
-- settle)
-- Returns {ms until the worker should look by itself or -1, outcomes as one line of words, jobs taken (see take) as
-- JSON, which is cheaper than nested tables, ms until the next tick of a schedule or -1}.
-- Invariant: one trip number acts once. A worker that did not see the reply asks again with the same number and
-- gets the same answer, so a lost reply neither orphans a batch nor settles twice. A worker with two lanes puts a
-- letter behind the numbers of one: each lane has a memory of its own.

local number, lane = string.match(trip, '^(%d+)(%a*)$')
local at, memory = now_ms(now), pump .. ':' .. token .. lane

local function until_next_tick()
  local first = redis.call('ZRANGE', schedules, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - at) or -1
end

-- The memory of a trip is `trip|outcomes|id claim id claim ...`.
local last = redis.call('GET', memory)
if last then
  local before, outcomes_then, taken_then = string.match(last, '^(%d+)|([^|]*)|(.*)$')
  if tonumber(before) >= tonumber(number) then
    local taken = {}
    for id, claim in string.gmatch(taken_then, '(%S+) (%d+)') do
      if holds(id, token, claim) then taken[#taken + 1] = {id, claim, read_job(id)} end
    end
    return {until_next_look(at, shut_for(at), first_due()), outcomes_then, cjson.encode(taken), until_next_tick()}
  end
end

local outcomes = {}
for n = 1, tonumber(count) do
  local i = 8 + (n - 1) * 7
  outcomes[n] = settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], at, token, worker,
    ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
end
leave_active()
put_away(at)
join(at)
local due, shut, taken = promote(at), shut_for(at), {}
if shut == 0 and want ~= '0' then
  taken = take(math.min(tonumber(want), allowed(at)), at, tonumber(lock), token, worker)
  spend(#taken, at)
  shut = shut_for(at)
end

-- What this worker has no room for, another one may take.
if shut == 0 then wake_if_work(at) end

local lent = {}
for n, one in ipairs(taken) do lent[n] = one[1] .. ' ' .. one[2] end
local words = table.concat(outcomes, ' ')
local memo = number .. '|' .. words .. '|' .. table.concat(lent, ' ')
redis.call('SET', memory, memo, 'PX', math.max(60000, 2 * tonumber(lock)))
return {until_next_look(at, shut, due), words, cjson.encode(taken), until_next_tick()}
