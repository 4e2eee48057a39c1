-- Grants a node a part of an app's limit of connections. All parts together are at most the limit, except for
-- connections that nodes had before.
-- KEYS: parts of the app's limit by node, leases
-- ARGV: node, its connections, the part that it keeps, limit, 1 if it needs more, age of the parts, earlier
--       identities of the node
-- Returns the node's part, how many connections more than it has it should keep, and the connections to others.
local node, own, held, max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local leases, nodes, granted, others = redis.call('HGETALL', KEYS[2]), {}, 0, 0
-- A lease that is no number counts as none, as everywhere.
for i = 1, #leases, 2 do nodes[leases[i]] = (tonumber(leases[i + 1]) or -1) >= 0 or nil end
for i = 7, #ARGV do nodes[ARGV[i]] = nil end
nodes[node] = true
local parts = redis.call('HGETALL', KEYS[1])
for i = 1, #parts, 2 do
  local part, used = string.match(parts[i + 1], '^(%d+) (%d+)')
  if not nodes[parts[i]] then
    -- A node that has ended, or an earlier identity.
    redis.call('HDEL', KEYS[1], parts[i])
  elseif parts[i] ~= node then
    granted, others = granted + part, others + used
  end
end
local count = 0
for _ in pairs(nodes) do count = count + 1 end
-- An equal part of three quarters of what no node has. The rest is for nodes that come, and for those that need
-- more before the others give back.
local left = math.max(max - granted - own, 0)
local spare = math.floor(left * 3 / 4 / count)
if ARGV[5] == '1' then spare = math.max(spare, math.ceil(left / 2)) end
held = math.max(held, own + spare)
redis.call('HSET', KEYS[1], node, string.format('%.0f %.0f', held, own))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return { held, spare, others }
