-- Renews a node's lease. A lease is a number that its node increases: no clock is involved, so that none lapses
-- while Redis does not respond. -1: the node has ended, and others remove its members.
-- KEYS: leases
-- ARGV: node
-- Returns the number of this node, and each node and its number.
local own = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if own >= 0 then own = redis.call('HINCRBY', KEYS[1], ARGV[1], 1) end
return { own, redis.call('HGETALL', KEYS[1]) }
