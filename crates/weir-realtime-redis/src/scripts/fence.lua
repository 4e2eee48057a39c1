-- Begins a new term of a partition if this server has taken it over from another one, or from an earlier
-- process. Every node calls this with each connection, before its first event.
-- KEYS: fence of the partition
-- ARGV: id of this server's process, the new term
-- Returns the id of the partition's data, which is lost with the data.
if redis.call('HGET', KEYS[1], 'server') ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'server', ARGV[1], 'term', ARGV[2])
end
local data = redis.call('HGET', KEYS[1], 'data')
if not data then
  data = ARGV[2]
  redis.call('HSET', KEYS[1], 'data', data)
end
return data
