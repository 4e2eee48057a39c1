-- Deletes batches that have expired. Follows batches.lua.
-- KEYS: keys of features. ARGV: time in microseconds ('' for Redis' clock), the number of batches.
-- Returns the ids of the batches and how many of their jobs had not succeeded.
local now, reply = now_micros(ARGV[1]), {}
local over = redis.call('ZRANGEBYSCORE', BATCHES, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(over) do
  local lost = tonumber(redis.call('HGET', batch_key(id), 'lost') or '0')
  reply[#reply + 1], reply[#reply + 2] = id, string.format('%.0f', redis.call('HLEN', batch_key(id) .. ':jobs') + lost)
  remove_batch(id, now)
end
return reply
