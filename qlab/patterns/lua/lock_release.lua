-- lock_release: give the lock back, if it is still ours.
-- KEYS lock
-- ARGV token
-- Returns 1 = released, 0 = it had run out, and may be somebody else's now.
-- Invariant: nobody deletes the lock of another; compare and delete are one step.

if redis.call('GET', lock) ~= token then return 0 end
return redis.call('DEL', lock)
