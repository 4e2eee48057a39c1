-- Removes some members of a node that has ended from one channel of the partition. Several nodes may call this
-- at once: each member is removed once.
-- KEYS: channels of the node, sequence of the partition
-- ARGV: the ended node, epoch for a channel without members, sharded channel, beginning of the partition's keys, this
--       node, prefix of the webhooks' ids
-- Returns the webhooks for users who left their last node, each after its id, or nothing if no channel is left.
local entry = redis.call('SRANDMEMBER', KEYS[1])
if not entry then return false end
begin_hooks(ARGV[4], ARGV[5], ARGV[6])
local function key(kind) return ARGV[4] .. kind .. ':' .. entry end
local own, users = key('members-of:' .. ARGV[1]), key('users')
local removed = {}
-- At most 1,000 users.
local fields = redis.call('HRANDFIELD', own, 1000)
for i = 1, #fields do
  removed[#removed + 1] = fields[i]
  redis.call('HDEL', own, fields[i])
  if remove_user(users, fields[i]) then add_hook('r', entry, fields[i]) end
end
set_node(ARGV[1], own, key('nodes'), KEYS[1], entry)
if #removed > 0 then
  publish({
    node = ARGV[1], entry = entry, version = key('version'), users = users, sequence = KEYS[2],
    new_epoch = ARGV[2], shard_channel = ARGV[3],
  }, {}, removed)
end
return hooks.added
