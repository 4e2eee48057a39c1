-- Takes over some webhooks of a node that has ended.
-- KEYS: its webhooks, those of this node, the ones that wait
-- ARGV: the ended node, this node
-- Returns nothing if none is left, or for each its id, what it is, and 1 if it still waits.
local taken, found = {}, redis.call('HRANDFIELD', KEYS[1], 100, 'WITHVALUES')
if #found == 0 then return false end
for i = 1, #found, 2 do
  local id, value = found[i], found[i + 1]
  redis.call('HDEL', KEYS[1], id)
  redis.call('HSET', KEYS[2], id, value)
  local letter, rest = string.match(value, '^(%a)(.*)$')
  local subject = ((letter == 'o' or letter == 'v') and 'c' or 'm') .. rest
  local waits = redis.call('HGET', KEYS[3], subject) == ARGV[1] .. ' ' .. id
  if waits then redis.call('HSET', KEYS[3], subject, ARGV[2] .. ' ' .. id) end
  taken[#taken + 1] = id
  taken[#taken + 1] = value
  taken[#taken + 1] = waits and '1' or '0'
end
return taken
