-- Moves a reserved job to a sorted set.
-- KEYS: reservations, set, leases.
-- ARGV: id, owner ('' to move it whatever its lease says), score, new text ('' for the stored one).
-- Returns 1, or 0 if the reservation is gone or its owner's lease is not over.
if ARGV[2] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], ARGV[2])
  if lease and tonumber(lease) > time[1] + time[2] / 1000000 then return 0 end
end
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then return 0 end
local text = ARGV[4]
if text == '' then text = string.sub(value, string.find(value, '\n', 1, true) + 1) end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[3], text)
return 1
