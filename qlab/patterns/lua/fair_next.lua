-- fair_next: whose turn it is; the tenants named go to the end of the ring.
-- KEYS ring
-- ARGV most
-- Returns up to `most` different tenants.
-- Invariant: nothing is taken out, so a caller that dies has lost nothing.

local turns = {}
for n = 1, math.min(tonumber(most), redis.call('LLEN', ring)) do
  turns[n] = redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
end
return turns
