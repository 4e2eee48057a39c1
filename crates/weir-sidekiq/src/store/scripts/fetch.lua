-- Reserves jobs for several workers that ask for the same queues, in the order of these queues.
-- KEYS: for each queue its list, its reservations and its control hash; then the leases, and the set
-- of queues with reservations, unless the caller adds the names itself.
-- ARGV: time in microseconds ('' for Redis' clock), owner, first number, count of workers, for each
-- worker its id, the maximum of jobs and of bytes; then the names of the queues.
-- Returns the time, and for each job: worker, queue (both from 1), number, payload. Returns nothing
-- at all if the owner's lease is over.

-- Bytes that are taken from a list at once; what the workers have no room for goes back.
local CHUNK_BYTES_MAX = 4194304
-- Jobs that are written at once, fewer than Lua can pass to a function (two values each).
local CHUNK_JOBS_MAX = 1000

local owner, number, workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local queues = math.floor(#KEYS / 3)
local leases, reserving = KEYS[3 * queues + 1], KEYS[3 * queues + 2]
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', leases, owner)
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local since = ARGV[1]
if since == '' then since = time[1] .. string.format('%06d', time[2]) end

local names = 4 + 3 * workers
local reserved = {since}
local wanted = 0
for worker = 1, workers do wanted = wanted + tonumber(ARGV[3 + 3 * worker]) end

-- The queue that is read, the jobs taken from it (`at` is the next one), and what is to be written to
-- its reservations.
local queue, jobs, at, fields = 0, {}, 1, {}
local largest = 0

-- A key may be of another type. That stops no other queue, and no job leaves a list unless it can
-- be reserved.
local function is_usable(place)
  local length = redis.pcall('HLEN', KEYS[3 * place - 1])
  if type(length) ~= 'number' then return false end
  if redis.pcall('HGET', KEYS[3 * place], 'paused') == '1' then return false end
  if reserving and length == 0 and redis.pcall('EXISTS', KEYS[3 * place - 2]) == 1 then
    -- A write that needs no memory: after it, Redis does not reject the other one when it is full.
    redis.pcall('SREM', reserving, '')
    redis.pcall('SADD', reserving, ARGV[names + place])
  end
  return true
end

local function write_fields()
  if #fields > 0 then redis.call('HSET', KEYS[3 * queue - 1], unpack(fields)) end
  fields = {}
end

-- Takes further jobs from the queues. One at first: its size decides how many come next.
local function refill(bytes)
  local most = 1
  if largest > 0 then
    most = math.floor(math.min(bytes, CHUNK_BYTES_MAX) / largest)
    most = math.max(1, math.min(most, wanted, CHUNK_JOBS_MAX))
  end
  while true do
    if queue > 0 then
      local popped = redis.pcall('RPOP', KEYS[3 * queue - 2], most)
      if type(popped) == 'table' and not popped.err then
        jobs, at = popped, 1
        return true
      end
    end
    write_fields()
    repeat
      queue = queue + 1
      if queue > queues then return false end
    until is_usable(queue)
  end
end

-- Reserves jobs for a worker. Returns false when all queues are empty.
local function fill(worker, count, bytes)
  local header = owner .. '\t' .. ARGV[2 + 3 * worker] .. '\t' .. since .. '\n'
  while count > 0 and bytes > 0 do
    if at > #jobs and not refill(bytes) then return false end
    local job, name = jobs[at], string.format('%.0f', number)
    local last = #fields
    fields[last + 1], fields[last + 2] = owner .. ':' .. name, header .. job
    if last + 2 >= 2 * CHUNK_JOBS_MAX then write_fields() end
    last = #reserved
    reserved[last + 1], reserved[last + 2] = worker, queue
    reserved[last + 3], reserved[last + 4] = name, job
    largest = math.max(largest, #job)
    number, at, count, bytes, wanted = number + 1, at + 1, count - 1, bytes - #job, wanted - 1
  end
  wanted = wanted - count
  return true
end

for worker = 1, workers do
  if not fill(worker, tonumber(ARGV[3 + 3 * worker]), tonumber(ARGV[4 + 3 * worker])) then break end
end
write_fields()
for place = #jobs, at, -1 do redis.call('RPUSH', KEYS[3 * queue - 2], jobs[place]) end
return reserved
