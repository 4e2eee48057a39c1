-- Appends one event: position, history and publication in one step.
-- KEYS: channel, two streams of events, sequence and fence of the partition, cached event, key of the event (may
--       be absent)
-- ARGV: epoch for a new channel, events_max, age of events (ms), age of the channel (ms),
--       sharded channel, event, age of the key (ms), age of the cached event (ms; 0: no cache channel),
--       whether the channel may have to be moved here first (1)
-- Returns the position, `moved SHARD` if the channel was moved to another shard, or `absent`.
if KEYS[7] then
  local known = redis.call('GET', KEYS[7])
  if known then return known end
end
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'term', 'stream', 'moved')
if meta[5] then return 'moved ' .. meta[5] end
if not meta[1] and ARGV[9] == '1' then return 'absent' end
local term = redis.call('HGET', KEYS[5], 'term') or ''
local epoch, continues, stream = meta[1], '', meta[4] or '1'
if epoch and (meta[3] or '') ~= term then
  -- This server took over since the epoch began. Nodes may have delivered later events than it has,
  -- whose offsets must not be given to other events. Others have not received its last events yet, and read
  -- them from the stream that is left.
  continues = epoch .. ':' .. meta[2]
  epoch = false
  stream = stream == '2' and '1' or '2'
end
local events = KEYS[stream == '2' and 3 or 2]
if not epoch then
  epoch = ARGV[1]
  redis.call('DEL', events)
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'offset', 0, 'term', term, 'continues', continues, 'stream', stream)
end
local offset = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'offset', 1))
local time = redis.call('TIME')
local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local head = epoch .. ' ' .. offset .. ' ' .. at
if continues ~= '' then head = head .. ' ' .. continues end
local record = head .. '\n' .. ARGV[6]
redis.call('XADD', events, 'MAXLEN', ARGV[2], offset .. '-0', 'r', record)
redis.call('PEXPIRE', events, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if ARGV[8] ~= '0' then redis.call('SET', KEYS[6], record, 'PX', ARGV[8]) end
local position = epoch .. ':' .. offset
if KEYS[7] then redis.call('SET', KEYS[7], position, 'PX', ARGV[7]) end
local sequence = string.format('%.0f', redis.call('INCR', KEYS[4]))
redis.call('SPUBLISH', ARGV[5], sequence .. ' ' .. record)
return position
