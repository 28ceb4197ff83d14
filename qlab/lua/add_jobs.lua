-- add_jobs: add a batch of jobs, all or none.
-- USES line_up postpone enqueue deduplicate
-- ARGV now
-- then for each job: id, delay in ms, priority or '', deduplication key or '', its ms, number of fields and
-- values, and these
-- Returns for each job its birth, or {id, birth} of the one that was there (or has its deduplication key) already.

local at, replies, i = now_ms(now), {}, 2
while ARGV[i] do
  local id, delay, priority, key, n = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 5])
  local other = key ~= '' and taken_by_another(key, ARGV[i + 4], id)
  replies[#replies + 1] = other
    or enqueue(id, delay, at, priority ~= '' and priority or nil, unpack(ARGV, i + 6, i + 5 + n))
  i = i + 6 + n
end
wake_if_work(at)
return replies
