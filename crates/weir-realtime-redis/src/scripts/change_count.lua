-- Sets the number of a node's subscriptions of a channel. Returns those of all nodes, before and after, and the
-- webhooks for a channel that was occupied or vacated, each after its id.
-- KEYS: counts of the node, occupied channels of the app, sequence of the partition
-- ARGV: APP:CHANNEL, channel, number, 1 to tell all nodes, sharded channel, beginning of the partition's keys, node,
--       prefix of the webhooks' ids (empty: none are wanted), earlier identities of the node
local own = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '0', '^%d+')
for i = 9, #ARGV do
  -- The same subscriptions, from before the node connected again.
  local earlier = ARGV[6] .. 'counts-of:' .. ARGV[i]
  local number = redis.call('HGET', earlier, ARGV[1])
  if number then
    own = own + string.match(number, '^%d+')
    redis.call('HDEL', earlier, ARGV[1])
  end
end
local number, is_announced = tonumber(ARGV[3]), ARGV[4] == '1'
if number > 0 then
  -- The letter is for the node that removes this one.
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. (is_announced and 'a' or ''))
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
local before, after = change_total(KEYS[2], ARGV[2], number - own)
if is_announced and before ~= after then publish_total(KEYS[3], ARGV[5], ARGV[1], after) end
begin_hooks(ARGV[6], ARGV[7], ARGV[8])
if before == 0 and after > 0 then add_hook('o', ARGV[1], '') end
if before > 0 and after == 0 then add_hook('v', ARGV[1], '') end
return { before, after, hooks.added }
