-- Deletes dead jobs beyond the limits of age and number, the oldest first.
-- KEYS: dead set, leases. ARGV: owner whose lease must be alive ('' for any), the oldest time that is
-- kept, the number of jobs that are kept.
-- Returns the number of jobs that were deleted because of their number.
if ARGV[1] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return 0 end
end
redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
local deleted = redis.pcall('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
return type(deleted) == 'number' and deleted or 0
