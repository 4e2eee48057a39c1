-- Removes subscriptions of a node that has ended from some channels of the partition. Several nodes may call
-- this at once: those of each channel are removed once.
-- KEYS: counts of the ended node, sequence of the partition
-- ARGV: sharded channel, beginning of the partition's keys, this node, prefix of the webhooks' ids
-- Returns the webhooks for channels without subscriptions, each after its id, or nothing if no channel is left.
local counts = redis.call('HRANDFIELD', KEYS[1], 200, 'WITHVALUES')
if #counts == 0 then return false end
begin_hooks(ARGV[2], ARGV[3], ARGV[4])
for i = 1, #counts, 2 do
  local entry, value = counts[i], counts[i + 1]
  redis.call('HDEL', KEYS[1], entry)
  local app, channel = string.match(entry, '^([^:]*):(.*)$')
  local number, letter = string.match(value, '^(%d+)(a?)')
  local before, after = change_total(ARGV[2] .. 'occupied:' .. app, channel, -number)
  if letter == 'a' then publish_total(KEYS[2], ARGV[1], entry, after) end
  if before > 0 and after == 0 then add_hook('v', entry, '') end
end
return hooks.added
