-- Reads the members of a channel by node, unless the caller has them.
-- KEYS: version and nodes of the channel
-- ARGV: version that the caller has (none: a channel without members; empty: unknown), beginning of the
--       partition's keys, APP:CHANNEL, users that may be returned
-- Returns nothing, or the version, the nodes, and for each of them its users and their information. Without the
-- users if there are more.
local found = redis.call('HMGET', KEYS[1], 'epoch', 'number')
local version = found[1] and found[1] .. ':' .. found[2] or 'none'
if version == ARGV[1] then return false end
local nodes, members, count = redis.call('SMEMBERS', KEYS[2]), {}, 0
local function key(node) return ARGV[2] .. 'members-of:' .. node .. ':' .. ARGV[3] end
for _, node in ipairs(nodes) do count = count + redis.call('HLEN', key(node)) end
if count > tonumber(ARGV[4]) then return { version, nodes, false } end
for i, node in ipairs(nodes) do members[i] = redis.call('HGETALL', key(node)) end
return { version, nodes, members }
