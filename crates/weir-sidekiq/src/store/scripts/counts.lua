-- Reads what is shown of queues, and what the rates of resources owe.
-- KEYS: for each queue its list, its reservations and its control hash; then the rates of resources, if any
-- are named.
-- ARGV: bytes of a job above which only its time of enqueueing is returned, time in microseconds ('' for
-- Redis' clock), the number of suffixes and the suffixes of lists that count as parts of an empty list, then the
-- names of resources.
-- Returns for each queue: jobs in its list, the job that is served next ('' for none), reserved jobs,
-- '1' if it is paused, what its rate owes. Then what the rate of each resource owes: microseconds until it owes
-- nothing, and since its last start; '' if none has started. A key of another type counts as absent.
local read = {}
local function add(value, kind, absent)
  read[#read + 1] = type(value) == kind and value or absent
end
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function add_owed(text)
  local full_at, started = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+)$')
  add(full_at and string.format('%.0f %.0f', full_at - now, now - started), 'string', '')
end
local queues = #KEYS - #KEYS % 3
for place = 1, queues, 3 do
  local length = redis.pcall('LLEN', KEYS[place])
  for suffix = 4, length == 0 and 3 + ARGV[3] or 0 do
    local part = redis.pcall('LLEN', KEYS[place] .. ARGV[suffix])
    length = length + (type(part) == 'number' and part or 0)
  end
  add(length, 'number', 0)
  local job = redis.pcall('LINDEX', KEYS[place], -1)
  if type(job) == 'string' and #job > tonumber(ARGV[1]) then
    local time = string.match(string.sub(job, -2048), '"enqueued_at":([%d.]+)')
    job = '{"class":"large","enqueued_at":' .. (time or 'null') .. '}'
  end
  add(job, 'string', '')
  add(redis.pcall('HLEN', KEYS[place + 1]), 'number', 0)
  local control = redis.pcall('HMGET', KEYS[place + 2], 'paused', 'starts')
  add(control[1], 'string', '')
  add_owed(control[2])
end
for place = 4 + ARGV[3], #ARGV do
  add_owed(redis.pcall('HGET', KEYS[queues + 1], ARGV[place]))
end
return read
