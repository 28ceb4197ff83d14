-- fair_push: put entries at the end of one tenant's list, and the tenant into the ring.
-- KEYS list ring count
-- ARGV tenant
-- The entries, JSON texts, follow. Returns the number of the first one.
-- Invariant: a tenant is in the ring, once, exactly if its list is not empty.

local first = redis.call('INCRBY', count, #ARGV - 1) - (#ARGV - 1) + 1
if redis.call('EXISTS', list) == 0 then redis.call('RPUSH', ring, tenant) end
for n = 2, #ARGV do
  redis.call('RPUSH', list, string.format('%d %s', first + n - 2, ARGV[n]))
end
return first
