-- token_bucket: take n tokens from one bucket, or say in how many ms there will be enough.
-- KEYS bucket
-- ARGV now capacity rate n
-- now: ms, '' = the server's clock; rate: tokens a second, 0 = never refilled.
-- Returns granted (1 or 0), tokens left (text), ms until n tokens are there (-1 = never).
-- Invariant: a bucket's key lives until the bucket is full again, at least: losing it changes nothing.
-- A clock that goes back gives no tokens and takes none away, until it is where it was before.

local cap, per_ms, want = tonumber(capacity), tonumber(rate) / 1000, tonumber(n)
local at = tonumber(now)
if not at then
  local t = redis.call('TIME')
  at = t[1] * 1000 + t[2] / 1000
end
local held = redis.call('HMGET', bucket, 'tokens', 'at')
local tokens, since = tonumber(held[1]) or cap, tonumber(held[2]) or at
local behind = math.max(0, since - at)
at = math.max(at, since)
tokens = math.min(cap, tokens + (at - since) * per_ms)

local granted, wait = 0, 0
if tokens + 1e-9 >= want then
  granted, tokens = 1, math.max(0, tokens - want)
elseif want > cap or per_ms == 0 then
  wait = -1
else
  wait = math.ceil((want - tokens) / per_ms + behind)
end

redis.call('HSET', bucket, 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', at))
if per_ms == 0 then
  redis.call('PERSIST', bucket)
else
  -- A clock of the caller's may be slower than the server's, which ends the key: then keep it longer.
  local spare = now == '' and 1000 or 3600000
  redis.call('PEXPIRE', bucket, string.format('%d', math.min(1e14, math.ceil((cap - tokens) / per_ms) + spare)))
end
return {granted, string.format('%.17g', tokens), wait}
