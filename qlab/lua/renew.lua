-- renew: put off the deadline of every job that the worker still holds.
-- KEYS active
-- ARGV now token lock
-- then for each job: id, claim
-- Returns the ids that the worker does not hold any more.
-- Invariant: a lease is renewed only by its holder; a lost lease is never taken back. Also while Redis is full: a job
-- whose end cannot be settled yet must not be given out again.

-- A full server refuses ZADD as the first write of a script, though here it takes no memory; not after this one.
redis.call('ZREM', active, '')
local at, lost = now_ms(now), {}
for i = 4, #ARGV, 2 do
  if holds(ARGV[i], token, ARGV[i + 1]) then
    redis.call('ZADD', active, 'XX', at + tonumber(lock), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
