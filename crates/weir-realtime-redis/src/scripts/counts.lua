-- Functions of the scripts that change the numbers of subscriptions.

-- Changes the subscriptions of a channel on all nodes. Returns the number before and after.
local function change_total(occupied, channel, change)
  local after = redis.call('HINCRBY', occupied, channel, change)
  if after <= 0 then redis.call('HDEL', occupied, channel) end
  return after - change, math.max(after, 0)
end

-- Tells all nodes how many subscriptions a channel has.
local function publish_total(sequence_key, shard_channel, entry, total)
  local sequence = string.format('%.0f', redis.call('INCR', sequence_key))
  local app, channel = string.match(entry, '^([^:]*):(.*)$')
  local json = '[' .. cjson.encode(app) .. ',' .. cjson.encode(channel) .. ']'
  redis.call('SPUBLISH', shard_channel, sequence .. ' count ' .. string.format('%.0f', total) .. '\n' .. json)
end
