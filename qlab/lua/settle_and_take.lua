-- settle_and_take: the pump's only script. Settle what ended since the last trip, take what there is room for.
-- USES finish line_up postpone come_back settle promote take
-- KEYS pump
-- ARGV now token worker lock trip want count
-- then for each of `count` settlements: kind, id, claim, attempts made, text, stack, extra (see settle)
-- Returns {ms until the worker should look by itself or -1, outcomes of the settlements, jobs taken}.
-- Invariant: one trip number acts once. A worker that did not see the reply asks again with the same number and
-- gets the same answer, so a lost reply neither orphans a batch nor settles twice.

local at, memory = now_ms(now), pump .. ':' .. token

local last = redis.call('HMGET', memory, 'trip', 'outcomes', 'taken')
if last[1] and tonumber(last[1]) >= tonumber(trip) then
  local outcomes, taken = {}, {}
  for word in string.gmatch(last[2], '%S+') do outcomes[#outcomes + 1] = word end
  for id, claim in string.gmatch(last[3], '(%S+) (%d+)') do
    if holds(id, token, claim) then taken[#taken + 1] = taken_before(id) end
  end
  return {until_next_look(at), outcomes, taken}
end

local outcomes = {}
for n = 1, tonumber(count) do
  local i = 8 + (n - 1) * 7
  outcomes[n] = settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], at, token, worker,
    ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
end
apply_retention(at)
promote(at)
local taken = take(tonumber(want), at, tonumber(lock), token, worker)
local due = until_next_look(at)

-- What this worker has no room for, another one may take.
wake_if_work(at)

local lent = {}
for n, one in ipairs(taken) do lent[n] = one[1] .. ' ' .. one[2][3] end
redis.call('HSET', memory, 'trip', trip, 'outcomes', table.concat(outcomes, ' '), 'taken', table.concat(lent, ' '))
redis.call('PEXPIRE', memory, math.max(60000, 2 * tonumber(lock)))
return {due, outcomes, taken}
