-- fair_done: take one entry out, now that it is in the queue.
-- KEYS list ring
-- ARGV tenant entry
-- Returns 1, or 0 when another dispatcher has done so.
-- Invariant: a tenant is in the ring, once, exactly if its list is not empty.

if redis.call('LINDEX', list, 0) ~= entry then return 0 end
redis.call('LPOP', list)
if redis.call('EXISTS', list) == 0 then redis.call('LREM', ring, 1, tenant) end
return 1
