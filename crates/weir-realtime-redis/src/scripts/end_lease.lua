-- Ends a node's lease if it was not renewed. Returns 1 if it has ended.
-- KEYS: leases
-- ARGV: node, number of its lease
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], -1)
return 1
