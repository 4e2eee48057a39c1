-- Reserves jobs by a plan: each step names a queue and one of its ends. The limits are checked again
-- here, with all jobs that are reserved now, and starts are counted for the rates. Follows classes.lua.
--
-- A job whose type uses a resource without room moves from the end of its list to the list of blocked jobs of its class,
-- whose name is that of the queue with the suffix of the class. So the next script does not meet it again, and the order
-- within a class stays. Next is the oldest among the first jobs of these lists that may start and that of the queue itself.
--
-- Jobs in progress that use a resource by their type are members of a set: the key of the reservations and the field
-- there. A member whose reservation has ended counts for nothing and is removed when the resource seems to be
-- full, so ends of reservations need not know of the set. The empty member says that the jobs were counted that
-- had been reserved before the resource was known.
--
-- KEYS: as in fetch.lua; then the rates of resources; then the reservations of each queue of a resource; then the jobs in
-- progress of each resource that has types, the set of queue names, and that of the lists of blocked jobs.
-- ARGV: as in fetch.lua; then the limits as JSON, and the steps: a queue (from 1) and 'oldest' or 'newest'.
-- The limits are `queues`, for each queue {concurrency, interval, capacity, resources, is_blocked_list}, and `resources`,
-- for each {name, concurrency, interval, capacity, keys, running}. An interval is that of a rate in microseconds, its
-- capacity the interval times the burst; both are absent without a rate. `resources` of a queue are places,
-- and `keys` and `running` are places in KEYS, and so is `names`, of the set of queue names. `classes` and `types`: classes.lua.
-- Returns the same as fetch.lua. Among the jobs, {0, queue, microseconds, KIND} says of a queue: '': no further job may
-- start before that time. 'blocked': no further one may start now; after that time, a blocked one may (0: not known).
-- 'more': jobs were moved, and another script may find some that may start. 'uncounted': the jobs in progress of a
-- resource have to be counted.
local owner, number, workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local names = 4 + 3 * workers
local limits = cjson.decode(ARGV[names + 1])
local queues = #limits.queues
names = names + 1
prepare_types(limits)
local leases, reserving = KEYS[3 * queues + 1], KEYS[3 * queues + 2]
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', leases, owner)
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local since = ARGV[1]
if since == '' then since = time[1] .. string.format('%06d', time[2]) end
local now = tonumber(since)

local step = names + queues + 1
local reserved = {since}
local rates = KEYS[3 * queues + 3]
-- Queues that are done with, and the number of reservations of each queue.
local sleeping, lengths = {}, {}
-- How long jobs of classes have to wait, and when the newest job of each list of blocked ones was enqueued.
local class_waits, newest_times = {}, {}
-- Jobs that are moved at most, and their bytes.
local moves, moved_bytes = 500, 4194304
-- A job that enters a list of blocked jobs out of order is put among so many that are next. It counts for ten moves.
local NEXT_SORTED_MAX, SORTED_COSTS = 50, 10
-- Jobs in progress of a resource that are examined when it seems to be full, and with each start.
local EXAMINED_WHEN_FULL, EXAMINED_PER_START = 200, 3
-- How long a queue is left alone if one of its keys is of another type. That stops no other queue.
local ODD_KEY_MICROS = 1000000

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
    -- A write that needs no memory: after it, Redis does not reject the other one when it is full.
    redis.pcall('ZREM', leases, '')
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

local function add_note(queue, micros, kind)
  for _, part in ipairs({0, queue, string.format('%.0f', math.ceil(micros)), kind}) do
    reserved[#reserved + 1] = part
  end
end

-- Removes jobs from those in progress of a resource whose reservation has ended, among some of them.
local function forget_ended(resource, examined)
  local key = KEYS[resource.running]
  local members = redis.pcall('SRANDMEMBER', key, examined)
  if members.err then return end
  local ended = {}
  for _, member in ipairs(members) do
    local reservations, field = string.match(member, '^(.*) ([^ ]+)$')
    if reservations and redis.pcall('HEXISTS', reservations, field) == 0 then ended[#ended + 1] = member end
  end
  if #ended > 0 then redis.call('SREM', key, unpack(ended)) end
end

-- Returns whether the jobs were counted that had been reserved before the resource was known.
local function is_counted(resource)
  if not resource.running or resource.is_counted then return true end
  resource.is_counted = redis.pcall('SISMEMBER', KEYS[resource.running], '') == 1
  return resource.is_counted
end

local function used_by(resource)
  -- Read once: `count_start` counts what this script adds.
  if not resource.used_by_queues then
    local used = 0
    for _, key in ipairs(resource.keys) do
      local length = redis.pcall('HLEN', KEYS[key])
      if type(length) == 'number' then used = used + length end
    end
    resource.used_by_queues = used
  end
  if not resource.running then return resource.used_by_queues end
  return resource.used_by_queues + redis.call('SCARD', KEYS[resource.running]) - 1
end

local function is_full(resource)
  if not is_counted(resource) then
    if not resource.is_reported then add_note(0, 0, 'uncounted') end
    resource.is_reported = true
    return true
  end
  if not resource.concurrency or used_by(resource) < resource.concurrency then return false end
  if not resource.running or resource.is_examined then return true end
  resource.is_examined = true
  forget_ended(resource, EXAMINED_WHEN_FULL)
  return used_by(resource) >= resource.concurrency
end

-- Leaves a queue alone for a time. Returns false.
local function let_sleep(queue, micros)
  sleeping[queue] = true
  add_note(queue, micros, '')
  return false
end

-- Returns whether the limits let a job of a queue start.
local function has_room(queue)
  local rule = limits.queues[queue]
  local length = redis.pcall('HLEN', KEYS[3 * queue - 1])
  if type(length) ~= 'number' then return let_sleep(queue, ODD_KEY_MICROS) end
  lengths[queue] = length
  if rule.concurrency and length >= rule.concurrency then return false end
  local wait = 0
  for _, place in ipairs(rule.resources) do
    local resource = limits.resources[place]
    if is_full(resource) then return false end
    if resource.interval then
      if not read_owed(resource, rates, resource.name) then return let_sleep(queue, ODD_KEY_MICROS) end
      wait = math.max(wait, wait_of(resource))
    end
  end
  if rule.interval then
    if not read_owed(rule, KEYS[3 * queue], 'starts') then return let_sleep(queue, ODD_KEY_MICROS) end
    wait = math.max(wait, wait_of(rule))
  end
  return wait == 0 or let_sleep(queue, wait)
end

-- Returns how long a job of a class has to wait; nil if another job has to end first.
local function find_wait(class)
  local wait = 0
  for _, place in ipairs(limits.classes[class].resources) do
    local resource = limits.resources[place]
    if is_full(resource) then return nil end
    if resource.interval then
      if not read_owed(resource, rates, resource.name) then return nil end
      wait = math.max(wait, wait_of(resource))
    end
  end
  return wait
end

-- The same, kept until the next start: `false` for nil.
local function wait_of_class(class)
  if class_waits[class] == nil then class_waits[class] = find_wait(class) or false end
  return class_waits[class] or nil
end

-- Returns when a job was enqueued, for an order only. `unknown`: if it does not say so.
local function time_of(job, unknown)
  local pattern = '"enqueued_at"%s*:%s*([%d.]+)'
  local time = tonumber(string.match(string.sub(job, -256), pattern) or string.match(job, pattern))
  if not time then return unknown end
  -- Sidekiq 8 writes milliseconds.
  return time > 100000000000 and time / 1000 or time
end

local function blocked_list(queue, class)
  return KEYS[3 * queue - 2] .. limits.classes[class].suffix
end

-- Adds the name of a list to the sets of names, or removes it.
local function note_list(command, queue, class)
  for place = limits.names, limits.names + 1 do
    redis.pcall(command, KEYS[place], ARGV[names + queue] .. limits.classes[class].suffix)
  end
end

-- Returns the class of the blocked job that is next now: one that may start, and is older than the next job of the queue
-- itself. Otherwise nil, and how long it takes until one may start by the rates.
local function next_blocked(queue)
  if limits.queues[queue].is_blocked_list then return nil end
  local class, oldest, soonest
  for place in ipairs(limits.classes) do
    local job = redis.pcall('LINDEX', blocked_list(queue, place), -1)
    if type(job) == 'string' then
      local wait = wait_of_class(place)
      if wait == 0 then
        local time = time_of(job, 0)
        if not class or time < oldest then class, oldest = place, time end
      elseif wait then
        soonest = math.min(soonest or wait, wait)
      end
    end
  end
  -- A job that returns from a worker is older.
  local next_job = class and redis.pcall('LINDEX', KEYS[3 * queue - 2], -1)
  if type(next_job) == 'string' and time_of(next_job, math.huge) < oldest then class = nil end
  return class, soonest
end

-- Puts a job into the list of its class: to the end, or where it belongs if it returns from a worker. Returns false if
-- that is not possible.
local function block(queue, class, job)
  if limits.queues[queue].is_blocked_list then return false end
  local list = blocked_list(queue, class)
  local time, later = time_of(job, math.huge), {}
  if not newest_times[list] then
    local newest = redis.pcall('LINDEX', list, 0)
    if type(newest) == 'table' then return false end
    if not newest then note_list('SADD', queue, class) end
    newest_times[list] = newest and time_of(newest, 0) or 0
  end
  if time < newest_times[list] then
    local last = redis.call('LINDEX', list, -NEXT_SORTED_MAX)
    if not last or time < time_of(last, 0) then
      moves = moves - SORTED_COSTS
      for _ = 1, NEXT_SORTED_MAX do
        local other = redis.call('LINDEX', list, -1)
        if not other or time < time_of(other, 0) then break end
        later[#later + 1] = redis.call('RPOP', list)
      end
      redis.call('RPUSH', list, job)
      for place = #later, 1, -1 do redis.call('RPUSH', list, later[place]) end
      return true
    end
  end
  redis.call('LPUSH', list, job)
  newest_times[list] = time < math.huge and time or 0
  return true
end

-- Takes the next job of a queue that may start, with its class. Moves those away that may not.
local function pop_by_class(queue, from)
  local main, source, soonest = KEYS[3 * queue - 2], nil, nil
  if from == 'oldest' then
    source, soonest = next_blocked(queue)
  end
  while moves > 0 and moved_bytes > 0 do
    local list = source and blocked_list(queue, source) or main
    local job = redis.pcall(from == 'oldest' and 'RPOP' or 'LPOP', list)
    if type(job) == 'string' then
      if source and redis.call('EXISTS', list) == 0 then
        note_list('SREM', queue, source)
        newest_times[list] = nil
      end
      local class = class_of(limits, job)
      local wait = class and wait_of_class(class) or 0
      if not class or wait_of_class(class) == 0 then return job, class end
      if not block(queue, class, job) then
        redis.call(from == 'oldest' and 'RPUSH' or 'LPUSH', list, job)
        break
      end
      moves, moved_bytes = moves - 1, moved_bytes - #job
      if wait > 0 then soonest = math.min(soonest or wait, wait) end
      -- A job in a list of another class: the settings have changed.
      if source then source = next_blocked(queue) end
    elseif from == 'newest' then
      from = 'oldest'
      source, soonest = next_blocked(queue)
    else
      break
    end
  end
  sleeping[queue] = true
  if moves > 0 and moved_bytes > 0 then
    add_note(queue, soonest or 0, 'blocked')
  else
    add_note(queue, 0, 'more')
  end
  return nil
end

local function count_start(queue, class, field)
  class_waits = {}
  local rule, of_queue = limits.queues[queue], {}
  if rule.interval then start(rule, KEYS[3 * queue], 'starts') end
  for _, place in ipairs(rule.resources) do
    local resource = limits.resources[place]
    of_queue[place] = true
    if resource.used_by_queues then resource.used_by_queues = resource.used_by_queues + 1 end
    if resource.interval then start(resource, rates, resource.name) end
  end
  for _, place in ipairs(class and limits.classes[class].resources or {}) do
    local resource = limits.resources[place]
    if not of_queue[place] then
      if resource.interval then start(resource, rates, resource.name) end
      redis.call('SADD', KEYS[resource.running], KEYS[3 * queue - 1] .. ' ' .. field)
      forget_ended(resource, EXAMINED_PER_START)
    end
  end
end

-- As in fetch.lua: no job leaves a list unless it can be reserved.
local function pop(queue, from)
  if sleeping[queue] then return nil end
  if redis.pcall('HGET', KEYS[3 * queue], 'paused') == '1' then return nil end
  if not has_room(queue) then return nil end
  local job, class
  if #limits.classes > 0 then
    job, class = pop_by_class(queue, from)
  else
    job = redis.pcall(from == 'oldest' and 'RPOP' or 'LPOP', KEYS[3 * queue - 2])
  end
  if type(job) ~= 'string' then return nil end
  if reserving and lengths[queue] == 0 then redis.pcall('SADD', reserving, ARGV[names + queue]) end
  return job, class
end

for worker = 1, workers do
  local at = 2 + 3 * worker
  local jobs, bytes = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local header = owner .. '\t' .. ARGV[at] .. '\t' .. since .. '\n'
  while jobs > 0 and bytes > 0 do
    if step > #ARGV then return reserved end
    local queue = tonumber(ARGV[step])
    local job, class = pop(queue, ARGV[step + 1])
    step = step + 2
    if job then
      local name = string.format('%.0f', number)
      local field = owner .. ':' .. name
      redis.call('HSET', KEYS[3 * queue - 1], field, header .. job)
      count_start(queue, class, field)
      for _, part in ipairs({worker, queue, name, job}) do reserved[#reserved + 1] = part end
      number, jobs, bytes = number + 1, jobs - 1, bytes - #job
    end
  end
end
return reserved
