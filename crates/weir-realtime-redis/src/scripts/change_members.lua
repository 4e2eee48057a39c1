-- Applies changes of one node's members of a channel. Returns the users who came to their first node, and
-- those who left their last one.
-- KEYS: version, users and nodes of the channel, members of this node, channels of this node, sequence of the
--       partition
-- ARGV: node, epoch for a channel without members, sharded channel, APP:CHANNEL, number of removed users,
--       removed users, added users, each followed by its information
local node, removed_count = ARGV[1], tonumber(ARGV[5])
local added, removed, first, last = {}, {}, {}, {}
for i = 6, 5 + removed_count do
  if redis.call('HDEL', KEYS[4], ARGV[i]) == 1 then
    removed[#removed + 1] = ARGV[i]
    if remove_user(KEYS[2], ARGV[i]) then last[#last + 1] = ARGV[i] end
  end
end
for i = 6 + removed_count, #ARGV, 2 do
  if redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) == 1 then
    added[#added + 1] = ARGV[i]
    added[#added + 1] = ARGV[i + 1]
    if redis.call('HINCRBY', KEYS[2], ARGV[i], 1) == 1 then first[#first + 1] = ARGV[i] end
  end
end
if #added > 0 or #removed > 0 then
  set_node(node, KEYS[4], KEYS[3], KEYS[5], ARGV[4])
  publish({
    node = node, entry = ARGV[4], version = KEYS[1], users = KEYS[2], sequence = KEYS[6],
    new_epoch = ARGV[2], shard_channel = ARGV[3],
  }, added, removed)
end
return { first, last }
