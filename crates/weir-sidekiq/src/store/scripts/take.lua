-- Reserves jobs by a plan: each step names a queue and one of its ends. The limits are checked again
-- here, with all jobs that are reserved now, and starts are counted for the rates.
-- KEYS: as in fetch.lua; then the rates of resources; then the reservations of each queue of a resource.
-- ARGV: as in fetch.lua; then the limits as JSON, and the steps: a queue (from 1) and 'oldest' or 'newest'.
-- The limits are `queues`, for each queue {concurrency, interval, capacity, resources}, and `resources`,
-- for each {name, concurrency, interval, capacity, keys}. An interval is that of a rate in microseconds, its
-- capacity the interval times the burst; both are absent without a rate. `resources` of a queue are places,
-- and `keys` are places in KEYS.
-- Returns the same as fetch.lua. Among the jobs, {0, queue, microseconds, ''} says that no further job of
-- the queue may start before that time.
local owner, number, workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local names = 4 + 3 * workers
local limits = cjson.decode(ARGV[names + 1])
local queues = #limits.queues
names = names + 1
local leases, reserving = KEYS[3 * queues + 1], KEYS[3 * queues + 2]
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', leases, owner)
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local since = ARGV[1]
if since == '' then since = time[1] .. string.format('%06d', time[2]) end
local now = tonumber(since)

local step = names + queues + 1
local reserved = {since}
local rates, sleeping = KEYS[3 * queues + 3], {}

-- Reads what a rate owes: microseconds until its bucket is full. Stored are the time when it will be,
-- and that of the last start. A rate that was changed, or a clock that was set back, lets it owe no
-- more than a whole bucket since the last start. Returns false if the key is of another type.
local function read_owed(rate, key, field)
  if rate.owed then return true end
  local text = redis.pcall('HGET', key, field)
  if type(text) == 'table' then return false end
  rate.owed = 0
  local full_at, started = string.match(text or '', '^(%d+) (%d+)$')
  if not full_at then return true end
  full_at, started = tonumber(full_at), tonumber(started)
  rate.owed = math.max(0, math.min(full_at, math.min(started, now) + rate.capacity) - now)
  if started > now then
    redis.call('HSET', key, field, string.format('%.0f %.0f', now + math.ceil(rate.owed), now))
  end
  return true
end

-- Returns how long the next start has to wait. Sums of fractions may be off by less than a nanosecond.
local function wait_of(rate)
  local wait = rate.owed + rate.interval - rate.capacity
  return wait > 0.001 and wait or 0
end

local function start(rate, key, field)
  rate.owed = rate.owed + rate.interval
  redis.call('HSET', key, field, string.format('%.0f %.0f', now + math.ceil(rate.owed), now))
end

local function is_full(resource)
  if not resource.concurrency then return false end
  local used = 0
  for _, key in ipairs(resource.keys) do
    local length = redis.pcall('HLEN', KEYS[key])
    if type(length) == 'number' then used = used + length end
  end
  return used >= resource.concurrency
end

-- Returns whether the limits let a job of a queue start.
local function has_room(queue)
  local rule = limits.queues[queue]
  local length = redis.pcall('HLEN', KEYS[3 * queue - 1])
  if type(length) ~= 'number' then return false end
  if rule.concurrency and length >= rule.concurrency then return false end
  local wait = 0
  for _, place in ipairs(rule.resources) do
    local resource = limits.resources[place]
    if is_full(resource) then return false end
    if resource.interval then
      if not read_owed(resource, rates, resource.name) then return false end
      wait = math.max(wait, wait_of(resource))
    end
  end
  if rule.interval then
    if not read_owed(rule, KEYS[3 * queue], 'starts') then return false end
    wait = math.max(wait, wait_of(rule))
  end
  if wait > 0 then
    sleeping[queue] = true
    for _, part in ipairs({0, queue, string.format('%.0f', math.ceil(wait)), ''}) do
      reserved[#reserved + 1] = part
    end
    return false
  end
  if reserving and length == 0 and redis.pcall('EXISTS', KEYS[3 * queue - 2]) == 1 then
    redis.pcall('SADD', reserving, ARGV[names + queue])
  end
  return true
end

local function count_start(queue)
  local rule = limits.queues[queue]
  if rule.interval then start(rule, KEYS[3 * queue], 'starts') end
  for _, place in ipairs(rule.resources) do
    local resource = limits.resources[place]
    if resource.interval then start(resource, rates, resource.name) end
  end
end

-- As in fetch.lua: no job leaves a list unless it can be reserved.
local function pop(queue, from)
  if sleeping[queue] then return nil end
  if redis.pcall('HGET', KEYS[3 * queue], 'paused') == '1' then return nil end
  if not has_room(queue) then return nil end
  local job = redis.pcall(from == 'oldest' and 'RPOP' or 'LPOP', KEYS[3 * queue - 2])
  return type(job) == 'string' and job or nil
end

for worker = 1, workers do
  local at = 2 + 3 * worker
  local jobs, bytes = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local header = owner .. '\t' .. ARGV[at] .. '\t' .. since .. '\n'
  while jobs > 0 and bytes > 0 do
    if step > #ARGV then return reserved end
    local queue = tonumber(ARGV[step])
    local job = pop(queue, ARGV[step + 1])
    step = step + 2
    if job then
      local name = string.format('%.0f', number)
      redis.call('HSET', KEYS[3 * queue - 1], owner .. ':' .. name, header .. job)
      count_start(queue)
      for _, part in ipairs({worker, queue, name, job}) do reserved[#reserved + 1] = part end
      number, jobs, bytes = number + 1, jobs - 1, bytes - #job
    end
  end
end
return reserved
