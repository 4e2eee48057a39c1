-- Ends a channel in this shard, from which it moves to another one. What it had stays for nodes that did not
-- receive the last events.
-- KEYS: channel, two streams of events, fence of the partition, cached event
-- ARGV: the other shard, how long that is remembered (ms), bytes of events, of which the newest are returned
-- Returns nothing if there is no such channel, or its epoch, its offset, whether these are exact (1), the events,
-- the cached event and its age left (ms).
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'term', 'moved', 'stream')
redis.call('HSET', KEYS[1], 'moved', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if not meta[1] then return false end
-- Nodes may have delivered later events of a server that this one took over from. Likewise, the other shard may
-- have had later ones if this is not the first call, and lost them.
local term = redis.call('HGET', KEYS[4], 'term') or ''
local is_exact = not meta[4] and (meta[3] or '') == term
local events = KEYS[meta[5] == '2' and 3 or 2]
local newest, bytes, next_id = {}, 0, '+'
while next_id do
  local entries = redis.call('XREVRANGE', events, next_id, '-', 'COUNT', 64)
  next_id = #entries == 64 and '(' .. entries[64][1]
  for _, entry in ipairs(entries) do
    bytes = bytes + #entry[2][2]
    if bytes > tonumber(ARGV[3]) then
      next_id = false
      break
    end
    newest[#newest + 1] = entry[2][2]
  end
end
local records = {}
for i = #newest, 1, -1 do records[#records + 1] = newest[i] end
local cached = redis.call('GET', KEYS[5]) or ''
return { meta[1], meta[2], is_exact and 1 or 0, records, cached, redis.call('PTTL', KEYS[5]) }
