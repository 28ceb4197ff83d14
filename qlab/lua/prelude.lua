-- Helpers of every script; put in front of it by the loader.
-- KEYS job events wake meta

-- Milliseconds now: the server's clock, or the clock that a test gave.
local function now_ms(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- One entry of the event stream. Payloads and error texts stay in the job's hash. The first entry of a script and
-- every 50th cap the stream: each word of a command costs.
local emitted = 0
local function emit(event, id, at, ...)
  emitted = emitted + 1
  if emitted % 50 ~= 1 then return redis.call('XADD', events, '*', 'event', event, 'job', id, 'at', at, ...) end
  return redis.call('XADD', events, 'MAXLEN', '~', 10000, '*', 'event', event, 'job', id, 'at', at, ...)
end

-- One token is left for one idle worker; it passes the token on if there is more to do than it can take.
local function somebody_is_told()
  return redis.call('LLEN', wake) > 0
end

local function wake_one()
  if not somebody_is_told() then redis.call('RPUSH', wake, '1') end
end

-- A job is held exactly while its hash has the token of its holder (otherwise it is empty); the claim number
-- tells one holding from the next by the same worker.
local function holds(id, token, claim)
  local held = redis.call('HMGET', job .. id, 'token', 'claim')
  return held[1] == token and held[2] == claim
end
