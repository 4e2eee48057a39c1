-- Continues a channel that moves to this shard, unless it is here already.
-- KEYS: channel, two streams of events, fence of the partition, cached event
-- ARGV: epoch, offset, whether these are exact (1), age of the channel (ms), age of events (ms), cached event (may
--       be empty), its age left (ms), events, the oldest first
if redis.call('HGET', KEYS[1], 'epoch') then return redis.status_reply('OK') end
-- With another term, the first event begins an epoch that continues this position.
local term = ARGV[3] == '1' and redis.call('HGET', KEYS[4], 'term') or 'moved'
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('HDEL', KEYS[1], 'moved')
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'offset', ARGV[2], 'term', term or '', 'continues', '', 'stream', '1')
for i = 8, #ARGV do
  local offset = string.match(ARGV[i], '^%S+ (%d+) ')
  if offset then redis.call('XADD', KEYS[2], offset .. '-0', 'r', ARGV[i]) end
end
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if ARGV[6] ~= '' and tonumber(ARGV[7]) > 0 then redis.call('SET', KEYS[5], ARGV[6], 'PX', ARGV[7]) end
return redis.status_reply('OK')
