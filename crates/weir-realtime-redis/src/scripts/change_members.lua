-- Applies changes of one node's members of a channel. Returns the webhooks for users who came to their first node,
-- or left their last one, each after its id.
-- KEYS: version, users and nodes of the channel, members of this node, channels of this node, sequence of the
--       partition
-- ARGV: node, epoch for a channel without members, sharded channel, APP:CHANNEL, number of removed users, beginning
--       of the partition's keys, prefix of the webhooks' ids (empty: none are wanted), removed users, added users,
--       each followed by its information
local node, removed_count = ARGV[1], tonumber(ARGV[5])
local added, removed = {}, {}
begin_hooks(ARGV[6], node, ARGV[7])
for i = 8, 7 + removed_count do
  if redis.call('HDEL', KEYS[4], ARGV[i]) == 1 then
    removed[#removed + 1] = ARGV[i]
    if remove_user(KEYS[2], ARGV[i]) then add_hook('r', ARGV[4], ARGV[i]) end
  end
end
for i = 8 + removed_count, #ARGV, 2 do
  local before = redis.call('HGET', KEYS[4], ARGV[i])
  -- Other information: the user left and returned since the last call.
  if before ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
    added[#added + 1] = ARGV[i]
    added[#added + 1] = ARGV[i + 1]
  end
  if not before and redis.call('HINCRBY', KEYS[2], ARGV[i], 1) == 1 then add_hook('a', ARGV[4], ARGV[i]) end
end
if #added > 0 or #removed > 0 then
  set_node(node, KEYS[4], KEYS[3], KEYS[5], ARGV[4])
  publish({
    node = node, entry = ARGV[4], version = KEYS[1], users = KEYS[2], sequence = KEYS[6],
    new_epoch = ARGV[2], shard_channel = ARGV[3],
  }, added, removed)
end
return hooks.added
