-- fair_done: take one entry out, now that it is in the queue.
-- KEYS list ring
-- ARGV tenant entry
-- Returns 1, or 0 when another dispatcher has done so, or the list is gone.
-- Invariant: a tenant is in the ring, once, exactly if its list is not empty.
-- Somebody may have deleted the list (a tenant who left): then its turn ends too.

local first = redis.call('LINDEX', list, 0) == entry
if first then redis.call('LPOP', list) end
if redis.call('EXISTS', list) == 0 then redis.call('LREM', ring, 0, tenant) end
return first and 1 or 0
