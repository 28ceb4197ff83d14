-- lock_acquire: take the lock if nobody has it, and number this holding.
-- KEYS lock fence
-- ARGV token ttl
-- ttl: ms. Returns the fencing number, or 0 when somebody else has the lock.
-- Invariant: a later holding has a higher number; `fence` never expires, else numbers would start again.

if not redis.call('SET', lock, token, 'NX', 'PX', ttl) then return 0 end
return redis.call('INCR', fence)
