-- Takes or renews the lease of an owner, by Redis' clock.
-- KEYS: leases. ARGV: owner, seconds, 'take' or 'renew'.
-- Returns 1, or 0 if there is no lease to renew or it is over.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
if ARGV[3] == 'renew' then
  local lease = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not lease or tonumber(lease) <= now then return 0 end
end
-- A write that needs no memory: after it, Redis does not reject the other one when it is full.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], string.format('%.6f', now + tonumber(ARGV[2])), ARGV[1])
return 1
