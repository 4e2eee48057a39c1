-- Reads the jobs of a sorted set that are due.
-- KEYS: set. ARGV: time in seconds ('' for Redis' clock), maximum of jobs, and of bytes after which
-- no further job is read.
-- Returns each job's text and score, the earliest first.
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] .. '.' .. string.format('%06d', time[2])
end
local left, bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local due = {}
while left > 0 and bytes > 0 do
  -- The first one shows whether they are large.
  local count = math.min(#due == 0 and 1 or 10, left)
  local read = redis.call(
    'ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', #due / 2, count)
  for place = 1, #read, 2 do
    due[#due + 1], due[#due + 2] = read[place], read[place + 1]
    bytes = bytes - #read[place]
  end
  if #read < 2 * count then break end
  left = left - count
end
return due
