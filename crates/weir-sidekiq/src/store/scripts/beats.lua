-- Stores when workers sent a BEAT to this node, and reads when others sent one to any node.
-- KEYS: beats.
-- ARGV: seconds after which a beat is forgotten, the number of beats received, then a wid and the age in milliseconds
-- for each of them, then the wids to read.
-- Returns the age of the last beat in milliseconds for each wid to read, or -1.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept_seconds, received = tonumber(ARGV[1]), tonumber(ARGV[2])
-- With a key of another type, or if Redis rejects writes, each node knows only the beats that it received itself.
local function score(wid)
  local found = redis.pcall('ZSCORE', KEYS[1], wid)
  return type(found) == 'string' and tonumber(found) or nil
end
for place = 3, 1 + 2 * received, 2 do
  local wid, at = ARGV[place], now - tonumber(ARGV[place + 1])
  local before = score(wid)
  if not before or before < at then redis.pcall('ZADD', KEYS[1], at, wid) end
end
if received > 0 then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1000 * kept_seconds)
  redis.pcall('EXPIRE', KEYS[1], kept_seconds)
end
local ages = {}
for place = 3 + 2 * received, #ARGV do
  local at = score(ARGV[place])
  ages[#ages + 1] = at and math.max(0, now - at) or -1
end
return ages
