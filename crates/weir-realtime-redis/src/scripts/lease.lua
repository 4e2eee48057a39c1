-- Renews a node's lease, and stores which layout the node knows. A lease is a number that its node increases: no clock
-- is involved, so that none lapses while Redis does not respond. -1: the node has ended, and others remove its members.
-- KEYS: leases, layouts of the nodes, the layout that a node must know
-- ARGV: node, its layout, the layout that a node must know as this one has read it before (0: none)
-- Returns the number of this node, each node and its number, each node that has stored a layout and that layout, and
-- the layout that a node must know. A node that does not know that, or can't read it, has no lease.
local needed = redis.pcall('GET', KEYS[3]) or '0'
if type(needed) == 'table' then
  if not string.find(needed.err, 'WRONGTYPE', 1, true) then return needed end
  needed = 'of another type'
end
if not string.match(needed, '^%d+$') or tonumber(needed) > tonumber(ARGV[2]) then return { 0, {}, {}, needed } end
-- Redis was emptied, or a replica that lacks the key took over.
if tonumber(needed) < tonumber(ARGV[3]) then
  needed = ARGV[3]
  redis.call('SET', KEYS[3], needed)
end
local own = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if own >= 0 then
  -- First: if it is rejected, there is no lease without a layout.
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  own = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
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
