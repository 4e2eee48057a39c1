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
local first_added = 10 + removed_count
local first_requested = first_added + 2 * added_count
-- A call that is denied a command is not rolled back. Commands of this script that no other part of realtime needs
-- come before all changes or after their publication, so that removing this node undoes a part of a call.
if #ARGV >= first_requested then redis.call('HLEN', KEYS[2]) end
if #ARGV >= first_added then
  redis.call('SADD', KEYS[3], node)
  redis.call('SADD', KEYS[5], ARGV[4])
end
begin_hooks(ARGV[6], node, ARGV[7])
for i = 10, first_added - 1 do
  if redis.call('HDEL', KEYS[4], ARGV[i]) == 1 then
    removed[#removed + 1] = ARGV[i]
    if remove_user(KEYS[2], ARGV[i]) then add_hook('r', ARGV[4], ARGV[i]) end
  end
end
for i = first_added, #ARGV, 2 do
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
  publish({
    node = node, entry = ARGV[4], version = KEYS[1], users = KEYS[2], sequence = KEYS[6],
    new_epoch = ARGV[2], shard_channel = ARGV[3],
  }, added, removed)
end
if redis.call('EXISTS', KEYS[4]) == 0 then
  redis.call('SREM', KEYS[3], node)
  redis.call('SREM', KEYS[5], ARGV[4])
end
return { hooks.added, rejected }
