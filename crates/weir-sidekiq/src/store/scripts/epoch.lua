-- Begins the next epoch of a node, or continues the one that its last process closed in order. No
-- epoch of a node comes twice, also if it was forgotten in between.
-- KEYS: epochs, epochs that were closed in order, leases. ARGV: node.
-- Returns the epoch, and 1 if its reservations are left to the node.
local last = redis.call('HGET', KEYS[1], ARGV[1])
local closed = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
if last and last == closed then return {last, 1} end
if not last then
  local forgotten = tonumber(redis.call('HGET', KEYS[1], 'forgotten') or '0') or 0
  return {redis.call('HINCRBY', KEYS[1], ARGV[1], forgotten + 1), 0}
end
-- The jobs that the last start of this node has reserved may return at once.
redis.call('ZREM', KEYS[3], ARGV[1] .. '-' .. last)
return {redis.call('HINCRBY', KEYS[1], ARGV[1], 1), 0}
