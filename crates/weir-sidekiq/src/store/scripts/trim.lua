-- Deletes dead jobs beyond the limits of age and number, the oldest first. Jobs that may have features stay, and
-- are returned: the caller deletes them with what belongs to them.
-- KEYS: dead set, leases. ARGV: owner whose lease must be alive ('' for any), the oldest time that is
-- kept, the number of jobs that are kept, the number of jobs that one call examines, then texts that only jobs with
-- features have.
-- Returns the number of jobs that were deleted or returned because of their number, and the jobs that are
-- returned.
if ARGV[1] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {'0'} end
end
local examined_max, reply = tonumber(ARGV[4]), {'0'}

-- Adds the jobs that may have features to the reply. Returns the others, or nothing if that is all of them.
local function without_features(jobs)
  local others = {}
  for _, job in ipairs(jobs) do
    local is_found = false
    for place = 5, #ARGV do is_found = is_found or string.find(job, ARGV[place], 1, true) end
    if is_found then reply[#reply + 1] = job else others[#others + 1] = job end
  end
  if #others < #jobs then return others end
end

local old = redis.pcall('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, examined_max)
if old.err then return reply end
local others = without_features(old)
for _, job in ipairs(others or {}) do redis.call('ZREM', KEYS[1], job) end
if not others then
  if #old < examined_max then
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
  else
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #old - 1)
  end
end

local first = #reply - 1
local count = math.min(redis.call('ZCARD', KEYS[1]) - first - tonumber(ARGV[3]), examined_max)
if count <= 0 then return reply end
reply[1] = string.format('%d', count)
others = without_features(redis.call('ZRANGE', KEYS[1], first, first + count - 1))
for _, job in ipairs(others or {}) do redis.call('ZREM', KEYS[1], job) end
if not others then redis.call('ZREMRANGEBYRANK', KEYS[1], first, first + count - 1) end
return reply
