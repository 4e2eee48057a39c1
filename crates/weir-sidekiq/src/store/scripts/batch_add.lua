-- Creates a batch, or adds that of an export. Follows batches.lua.
-- KEYS: keys of features. ARGV: id, time in microseconds ('' for Redis' clock), the number of batches that there may be,
-- the bytes that their definitions may have, '1' if the parent must exist, microseconds for which the batch is kept
-- at least, time until which it is kept at least ('' for none); then fields and values of its hash.
-- Returns 1, or 0 if there is a batch with this id, -1 if its parent does not exist, -2 if there are too many
-- batches, -3 if there are too many bytes.
local id, now, key = ARGV[1], now_micros(ARGV[2]), batch_key(ARGV[1])
local fields = {}
for place = 8, #ARGV, 2 do fields[ARGV[place]] = ARGV[place + 1] end
if redis.call('EXISTS', key) == 1 then return 0 end
if ARGV[5] == '1' and fields.parent ~= '' and redis.call('EXISTS', batch_key(fields.parent)) == 0 then return -1 end
if redis.call('ZCARD', BATCHES) >= tonumber(ARGV[3]) then return -2 end
local bytes = tonumber(redis.call('GET', BATCHES .. ':bytes') or '0') + tonumber(fields.bytes)
if bytes > tonumber(ARGV[4]) then return -3 end
redis.call('HSET', key, unpack(ARGV, 8))
redis.call('INCRBY', BATCHES .. ':bytes', fields.bytes)
if fields.created_at == '' then redis.call('HSET', key, 'created_at', string.format('%.0f', now)) end
keep_until(id, math.max(now + tonumber(ARGV[6]), tonumber(ARGV[7]) or 0))
if fields.parent ~= '' then
  redis.call('SADD', batch_key(fields.parent) .. ':children', id)
  join_parent(id, fields.parent, now)
end
-- Only a batch of an export has children already.
local cursor, seen = '0', {}
repeat
  local page = redis.call('SSCAN', key .. ':children', cursor, 'COUNT', 1000)
  cursor = page[1]
  for _, child in ipairs(page[2]) do
    if not seen[child] and redis.call('EXISTS', batch_key(child)) == 1 then join_parent(child, id, now) end
    seen[child] = true
  end
until cursor == '0'
return 1
