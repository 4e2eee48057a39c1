-- Applies changes of one node's members of a channel. Returns the webhooks for users who came to their first node,
-- or left their last one, each after its id, and the users who were not admitted.
-- KEYS: version, users and nodes of the channel, members of this node, channels of this node, sequence of the
--       partition
-- ARGV: node, epoch for a channel without members, sharded channel, APP:CHANNEL, number of removed users, beginning
--       of the partition's keys, prefix of the webhooks' ids (empty: none are wanted), number of added users, limit
--       of users, removed users, added users, and users who wait to be admitted, each of these two followed by its
--       information
local node, removed_count, added_count, max = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[8]), tonumber(ARGV[9])
local added, removed, rejected = {}, {}, {}
begin_hooks(ARGV[6], node, ARGV[7])
for i = 10, 9 + removed_count do
  if redis.call('HDEL', KEYS[4], ARGV[i]) == 1 then
    removed[#removed + 1] = ARGV[i]
    if remove_user(KEYS[2], ARGV[i]) then add_hook('r', ARGV[4], ARGV[i]) end
  end
end
local first_requested = 10 + removed_count + 2 * added_count
for i = 10 + removed_count, #ARGV, 2 do
  local user, info = ARGV[i], ARGV[i + 1]
  -- The members of all nodes. One of them may come to another node in any case.
  local is_full = i >= first_requested and redis.call('HLEN', KEYS[2]) >= max
  if is_full and not redis.call('HGET', KEYS[2], user) then
    rejected[#rejected + 1] = user
  else
    local before = redis.call('HGET', KEYS[4], user)
    -- Other information: the user left and returned since the last call.
    if before ~= info then
      redis.call('HSET', KEYS[4], user, info)
      added[#added + 1] = user
      added[#added + 1] = info
    end
    if not before and redis.call('HINCRBY', KEYS[2], user, 1) == 1 then add_hook('a', ARGV[4], user) end
  end
end
if #added > 0 or #removed > 0 then
  set_node(node, KEYS[4], KEYS[3], KEYS[5], ARGV[4])
  publish({
    node = node, entry = ARGV[4], version = KEYS[1], users = KEYS[2], sequence = KEYS[6],
    new_epoch = ARGV[2], shard_channel = ARGV[3],
  }, added, removed)
end
return { hooks.added, rejected }
