-- Reads the jobs of a sorted set that are due.
-- KEYS: set. ARGV: time in seconds ('' for Redis' clock), maximum.
-- Returns each job's text and score, the earliest first.
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] .. '.' .. string.format('%06d', time[2])
end
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
