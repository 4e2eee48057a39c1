-- Appends one event: position, history and publication in one step.
-- KEYS: channel, events, sequence and fence of the partition, cached event, key of the event (may be absent)
-- ARGV: epoch for a new channel, events_max, age of events (ms), age of the channel (ms),
--       sharded channel, event, age of the key (ms), age of the cached event (ms; 0: no cache channel)
if KEYS[6] then
  local known = redis.call('GET', KEYS[6])
  if known then return known end
end
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'term')
local term = redis.call('HGET', KEYS[4], 'term') or ''
local epoch, continues = meta[1], ''
if epoch and (meta[3] or '') ~= term then
  -- This server took over since the epoch began. Nodes may have delivered later events than it has,
  -- whose offsets must not be given to other events.
  continues = epoch .. ':' .. meta[2]
  epoch = false
end
if not epoch then
  epoch = ARGV[1]
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'offset', 0, 'term', term, 'continues', continues)
end
local offset = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'offset', 1))
local time = redis.call('TIME')
local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local head = epoch .. ' ' .. offset .. ' ' .. at
if continues ~= '' then head = head .. ' ' .. continues end
local record = head .. '\n' .. ARGV[6]
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[2], offset .. '-0', 'r', record)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if ARGV[8] ~= '0' then redis.call('SET', KEYS[5], record, 'PX', ARGV[8]) end
local position = epoch .. ':' .. offset
if KEYS[6] then redis.call('SET', KEYS[6], position, 'PX', ARGV[7]) end
local sequence = string.format('%.0f', redis.call('INCR', KEYS[3]))
redis.call('SPUBLISH', ARGV[5], sequence .. ' ' .. record)
return position
