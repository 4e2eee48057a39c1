-- Returns blocked jobs to their queue, to the end that is served next, the newest first.
-- KEYS: blocked jobs, list of their queue, leases, set of queue names, set of the lists of blocked jobs.
-- ARGV: owner whose lease must be alive, name of the list of blocked jobs, name of the queue, the number of jobs
-- and of bytes after which the script ends.
-- Returns how many were returned and how many are left. Returns nothing if the lease is over.
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local moved, bytes = 0, 0
while moved < tonumber(ARGV[4]) and bytes < tonumber(ARGV[5]) do
  local job = redis.pcall('LPOP', KEYS[1])
  if type(job) ~= 'string' then break end
  -- The list of the queue may be of another type.
  if type(redis.pcall('RPUSH', KEYS[2], job)) ~= 'number' then
    redis.call('LPUSH', KEYS[1], job)
    break
  end
  moved, bytes = moved + 1, bytes + #job
end
if moved > 0 then redis.pcall('SADD', KEYS[4], ARGV[3]) end
local left = redis.pcall('LLEN', KEYS[1])
if left == 0 then
  redis.pcall('SREM', KEYS[4], ARGV[2])
  redis.pcall('SREM', KEYS[5], ARGV[2])
end
return {moved, type(left) == 'number' and left or 0}
