-- Reads what is shown of queues.
-- KEYS: for each queue its list, its reservations and its control hash.
-- ARGV: bytes of a job above which only its time of enqueueing is returned.
-- Returns for each queue: jobs in its list, the job that is served next ('' for none), reserved jobs,
-- '1' if it is paused. A key of another type counts as absent.
local read = {}
local function add(value, kind, absent)
  read[#read + 1] = type(value) == kind and value or absent
end
for place = 1, #KEYS, 3 do
  add(redis.pcall('LLEN', KEYS[place]), 'number', 0)
  local job = redis.pcall('LINDEX', KEYS[place], -1)
  if type(job) == 'string' and #job > tonumber(ARGV[1]) then
    local time = string.match(string.sub(job, -2048), '"enqueued_at":([%d.]+)')
    job = '{"class":"large","enqueued_at":' .. (time or 'null') .. '}'
  end
  add(job, 'string', '')
  add(redis.pcall('HLEN', KEYS[place + 1]), 'number', 0)
  add(redis.pcall('HGET', KEYS[place + 2], 'paused'), 'string', '')
end
return read
