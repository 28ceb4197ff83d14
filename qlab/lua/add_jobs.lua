-- add_jobs: add a batch of jobs, all or none.
-- USES postpone enqueue
-- ARGV now
-- then for each job: id, delay in ms, number of fields and values, and these
-- Returns for each job {birth, 1 if its id was there already}.

local at, replies, i = now_ms(now), {}, 2
while ARGV[i] do
  local n = tonumber(ARGV[i + 2])
  replies[#replies + 1] = {enqueue(ARGV[i], tonumber(ARGV[i + 1]), at, {unpack(ARGV, i + 3, i + 2 + n)})}
  i = i + 3 + n
end
if redis.call('LLEN', waiting) > 0 then wake_one() end
return replies
