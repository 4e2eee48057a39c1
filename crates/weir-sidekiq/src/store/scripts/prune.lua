-- Forgets what is of no use any more: counts of kills that are too old or too many, leases that are
-- over, names of queues without reservations, what earlier versions counted.
-- KEYS: leases, hash of kills, hash of earlier versions, set of queues with reservations, then for
-- each queue its reservations.
-- ARGV: owner whose lease must be alive ('' for any; then leases that are over are deleted), time in seconds ('' for Redis' clock), age in seconds at
-- which a count is forgotten, the number of counts that are kept, cursor in the hash, the number of
-- counts to examine, then the names of the queues and the owners without reservations: each is
-- preceded by 'queue' or 'owner'.
-- Returns the next cursor, and the number of counts and of leases that are left. Returns nothing if
-- the lease is over.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local function is_alive(owner)
  local lease = redis.call('ZSCORE', KEYS[1], owner)
  return lease and tonumber(lease) > now
end
if ARGV[1] == '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
elseif not is_alive(ARGV[1]) then
  return {}
end
local seconds, age_max, kept = tonumber(ARGV[2]) or now, tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('DEL', KEYS[3])
local queue = 5
for place = 7, #ARGV, 2 do
  if ARGV[place] == 'queue' then
    if redis.call('EXISTS', KEYS[queue]) == 0 then redis.pcall('SREM', KEYS[4], ARGV[place + 1]) end
    queue = queue + 1
  elseif not is_alive(ARGV[place + 1]) then
    redis.call('ZREM', KEYS[1], ARGV[place + 1])
  end
end
local page = redis.pcall('HSCAN', KEYS[2], ARGV[5], 'COUNT', ARGV[6])
if page.err then return {'0', 0, redis.call('ZCARD', KEYS[1])} end
local left = redis.call('HLEN', KEYS[2])
for place = 1, #page[2], 2 do
  local since = string.match(page[2][place + 1], '^%d+ (%d+)$')
  if not since or seconds - tonumber(since) > age_max or left > kept then
    redis.call('HDEL', KEYS[2], page[2][place])
    left = left - 1
  end
end
return {page[1], left, redis.call('ZCARD', KEYS[1])}
