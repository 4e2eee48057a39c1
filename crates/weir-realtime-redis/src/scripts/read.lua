-- Reads a channel's position and the events after a node's copy. A node that has delivered more than
-- this server has (a failover lost the rest) starts a new epoch, once for all nodes: the others find
-- the new epoch at their next comparison, which the increased sequence causes.
-- KEYS: channel, two streams of events, sequence and fence of the partition, cached event (of a cache channel only)
-- ARGV: epoch for a new channel, epoch of the copy, offset of the copy, events_max, age of the channel (ms),
--       bytes of events, of which the newest are returned, age of a channel without events (ms), whether a
--       channel that does not exist begins (1)
-- Returns the position (`absent`: the channel does not exist), the events, the cached event, 1 if these are the last
-- events of the copy's epoch, which another one continues, and the shard that the channel was moved to. What that had
-- until then is returned as well.

-- Returns the events of a stream from `first` to `last`. From the newest on, some at a time, so that this takes no
-- more memory than what is returned.
local function read_events(stream, first, last)
  first = math.max(first, last - tonumber(ARGV[4]) + 1)
  local newest, bytes, next_id = {}, 0, '+'
  local first_id = string.format('%.0f-0', first)
  while next_id and first <= last do
    local entries = redis.call('XREVRANGE', stream, next_id, first_id, 'COUNT', 64)
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
  return records
end

local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'continues', 'stream', 'moved')
local moved = meta[5] or ''
if not meta[1] and (moved ~= '' or ARGV[8] ~= '1') then return { 'absent', {}, '', 0, moved } end
local epoch, offset = meta[1], tonumber(meta[2] or '0')
local events, earlier = KEYS[2], KEYS[3]
if meta[4] == '2' then events, earlier = earlier, events end
local held, after, is_lost = tonumber(ARGV[3]), 0, false
if epoch and epoch == ARGV[2] then
  is_lost = offset < held
  after = held
elseif epoch then
  local previous, last = string.match(meta[3] or '', '^(.*):(%d+)$')
  if previous == ARGV[2] and held < tonumber(last) then
    local records = read_events(earlier, held + 1, tonumber(last))
    if #records > 0 then return { meta[3], records, '', 1, moved } end
  end
  is_lost = previous == ARGV[2] and tonumber(last) < held
end
if moved == '' and (is_lost or not epoch) then
  local term = redis.call('HGET', KEYS[5], 'term') or ''
  epoch, offset, after = ARGV[1], 0, 0
  redis.call('DEL', KEYS[2], KEYS[3])
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'offset', 0, 'term', term, 'continues', '', 'stream', '1')
  events = KEYS[2]
end
if moved == '' then
  if is_lost then redis.call('INCR', KEYS[4]) end
  redis.call('PEXPIRE', KEYS[1], offset > 0 and ARGV[5] or ARGV[7])
end
local cached = KEYS[6] and redis.call('GET', KEYS[6]) or ''
local records = read_events(events, after + 1, offset)
return { epoch .. ':' .. string.format('%.0f', offset), records, cached, 0, moved }
