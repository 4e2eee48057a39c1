-- Reads a channel's position and the events after a node's copy. A node that has delivered more than
-- this server has (a failover lost the rest) starts a new epoch, once for all nodes: the others find
-- the new epoch at their next comparison, which the increased sequence causes.
-- KEYS: channel, events, sequence and fence of the partition, cached event (of a cache channel only)
-- ARGV: epoch for a new channel, epoch of the copy, offset of the copy, events_max, age of the channel (ms),
--       bytes of events, of which the newest are returned, age of a channel without events (ms)
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'continues')
local epoch, offset = meta[1], tonumber(meta[2] or '0')
local held, after, is_lost = tonumber(ARGV[3]), 0, false
if epoch and epoch == ARGV[2] then
  is_lost = offset < held
  after = held
elseif epoch then
  local previous, last = string.match(meta[3] or '', '^(.*):(%d+)$')
  is_lost = previous == ARGV[2] and tonumber(last) < held
end
if is_lost or not epoch then
  local term = redis.call('HGET', KEYS[4], 'term') or ''
  epoch, offset, after = ARGV[1], 0, 0
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'offset', 0, 'term', term, 'continues', '')
end
if is_lost then redis.call('INCR', KEYS[3]) end
redis.call('PEXPIRE', KEYS[1], offset > 0 and ARGV[5] or ARGV[7])
local first = math.max(after, offset - tonumber(ARGV[4])) + 1
-- From the newest on, some at a time, so that this takes no more memory than what is returned.
local newest, bytes, next_id = {}, 0, '+'
local first_id = string.format('%.0f-0', first)
while next_id and first <= offset do
  local entries = redis.call('XREVRANGE', KEYS[2], next_id, first_id, 'COUNT', 64)
  next_id = #entries == 64 and '(' .. entries[64][1]
  for _, entry in ipairs(entries) do
    bytes = bytes + #entry[2][2]
    if bytes > tonumber(ARGV[6]) then
      next_id = false
      break
    end
    newest[#newest + 1] = entry[2][2]
  end
end
local records = {}
for i = #newest, 1, -1 do records[#records + 1] = newest[i] end
local cached = KEYS[5] and redis.call('GET', KEYS[5]) or ''
return { epoch .. ':' .. string.format('%.0f', offset), records, cached }
