-- Renews a node's lease, and stores which layout the node knows. A lease is a number that its node increases: no clock
-- is involved, so that none lapses while Redis does not respond. -1: the node has ended, and others remove its members.
-- KEYS: leases, layouts of the nodes, the layout that a node must know
-- ARGV: node, its layout
-- Returns the number of this node, each node and its number, each node that has stored a layout and that layout, and
-- the layout that a node must know. A node that does not know that has no lease.
local needed = tonumber(redis.call('GET', KEYS[3]) or '0')
if needed > tonumber(ARGV[2]) then return { 0, {}, {}, needed } end
local own = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if own >= 0 then
  own = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
local leases, layouts, has_lease = redis.call('HGETALL', KEYS[1]), {}, {}
for i = 1, #leases, 2 do has_lease[leases[i]] = true end
local stored = redis.call('HGETALL', KEYS[2])
for i = 1, #stored, 2 do
  if has_lease[stored[i]] then
    layouts[#layouts + 1] = stored[i]
    layouts[#layouts + 1] = stored[i + 1]
  else
    redis.call('HDEL', KEYS[2], stored[i])
  end
end
return { own, leases, layouts, needed }
