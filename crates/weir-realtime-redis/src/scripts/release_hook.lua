-- Ends the wait of a webhook of a channel or a member that left. Returns 1 if it is to be sent, or 0 if it was
-- cancelled.
-- KEYS: the webhooks that wait, in the partition
-- ARGV: what it is about, its id
local waiting = redis.call('HGET', KEYS[1], ARGV[1])
if not waiting or string.match(waiting, ' (%S+)$') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
