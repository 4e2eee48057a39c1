-- Changes switches on all nodes, or stores those of the first node. Forgets those that have expired.
-- KEYS: switches, their version
-- ARGV: epoch for the first change, sharded channel, 1 only if no node has stored any before, patterns, each followed
--       by what is off (JSON), or nothing if it is on
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if not epoch then redis.call('HSET', KEYS[2], 'epoch', ARGV[1]) end
if not epoch or ARGV[3] == '0' then
  for i = 4, #ARGV, 2 do
    if ARGV[i + 1] == '' then
      redis.call('HDEL', KEYS[1], ARGV[i])
    else
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    end
  end
  local now = redis.call('TIME')
  local stored = redis.call('HGETALL', KEYS[1])
  for i = 1, #stored, 2 do
    local ok, off = pcall(cjson.decode, stored[i + 1])
    local ends = ok and type(off) == 'table' and tonumber(off.until_us)
    if not ok or (ends and ends < now[1] * 1000000) then redis.call('HDEL', KEYS[1], stored[i]) end
  end
  redis.call('HINCRBY', KEYS[2], 'number', 1)
  redis.call('SPUBLISH', ARGV[2], 'switches -')
end
return redis.status_reply('OK')
