-- Functions of the scripts that change the members of presence channels. The keys of a channel and of its
-- partition have one hash tag, so they are in one slot.

-- Returns a JSON array of strings; an empty table would be encoded as an object.
local function list(values)
  local encoded = {}
  for i, value in ipairs(values) do encoded[i] = cjson.encode(value) end
  return '[' .. table.concat(encoded, ',') .. ']'
end

-- Removes a node's user from the number of its nodes. Returns whether it was the last one.
local function remove_user(users, user)
  if redis.call('HINCRBY', users, user, -1) > 0 then return false end
  redis.call('HDEL', users, user)
  return true
end

-- Notes that a node has members of a channel, or has none.
local function set_node(node, own, nodes, channels, entry)
  local command = redis.call('EXISTS', own) == 1 and 'SADD' or 'SREM'
  redis.call(command, nodes, node)
  redis.call(command, channels, entry)
end

-- Tells all nodes of changes. `added` has each user and its information.
local function publish(change, added, removed)
  local epoch = redis.call('HGET', change.version, 'epoch') or change.new_epoch
  redis.call('HSET', change.version, 'epoch', epoch)
  local number = string.format('%.0f', redis.call('HINCRBY', change.version, 'number', 1))
  local sequence = string.format('%.0f', redis.call('INCR', change.sequence))
  local head = sequence .. ' members ' .. change.node .. ' ' .. epoch .. ':' .. number .. '\n'
  local app, channel = string.match(change.entry, '^([^:]*):(.*)$')
  local json = '[' .. cjson.encode(app) .. ',' .. cjson.encode(channel) .. ',' .. list(added) .. ','
  redis.call('SPUBLISH', change.shard_channel, head .. json .. list(removed) .. ']')
  if redis.call('EXISTS', change.users) == 0 then redis.call('DEL', change.version) end
end
