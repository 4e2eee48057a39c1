-- Returns reserved jobs to the end of their queue that is served next.
-- KEYS: reservations, list, set of queue names, leases.
-- ARGV: queue name, owner ('' to move whatever its lease says), then the ids in the order in which
-- they are put back: the one to be served first comes last.
-- Returns 1 for each job that was moved and 0 for each that was not there any more.
if ARGV[2] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[4], ARGV[2])
  if lease and tonumber(lease) > time[1] + time[2] / 1000000 then return {} end
end
local moved = {}
for place = 3, #ARGV do
  local value = redis.call('HGET', KEYS[1], ARGV[place])
  moved[#moved + 1] = value and 1 or 0
  if value then
    redis.call('HDEL', KEYS[1], ARGV[place])
    redis.call('RPUSH', KEYS[2], string.sub(value, string.find(value, '\n', 1, true) + 1))
    redis.call('SADD', KEYS[3], ARGV[1])
  end
end
return moved
