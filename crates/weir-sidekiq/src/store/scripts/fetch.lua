-- Reserves jobs for several workers that ask for the same queues, in the order of these queues.
-- KEYS: for each queue its list, its reservations and its control hash; then the leases and the set
-- of queues with reservations.
-- ARGV: time in microseconds ('' for Redis' clock), owner, first number, count of workers, for each
-- worker its id, the maximum of jobs and of bytes; then the names of the queues.
-- Returns the time, and for each job: worker, queue (both from 1), number, payload. Returns nothing
-- at all if the owner's lease is over.
local owner, number, workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', KEYS[#KEYS - 1], owner)
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local since = ARGV[1]
if since == '' then since = time[1] .. string.format('%06d', time[2]) end

local queues, names = (#KEYS - 2) / 3, 4 + 3 * workers
local queue, usable = 1, {}
local reserved = {since}

-- A key may be of another type. That stops no other queue, and no job leaves a list unless it can
-- be reserved.
local function is_usable(place)
  if usable[place] == nil then
    local length = redis.pcall('HLEN', KEYS[3 * place - 1])
    usable[place] = type(length) == 'number'
      and redis.pcall('HGET', KEYS[3 * place], 'paused') ~= '1'
    if usable[place] and length == 0 and redis.pcall('EXISTS', KEYS[3 * place - 2]) == 1 then
      redis.pcall('SADD', KEYS[#KEYS], ARGV[names + place])
    end
  end
  return usable[place]
end

local function pop()
  while queue <= queues do
    if is_usable(queue) then
      local job = redis.pcall('RPOP', KEYS[3 * queue - 2])
      if type(job) == 'string' then return job end
    end
    queue = queue + 1
  end
end

for worker = 1, workers do
  local at = 2 + 3 * worker
  local jobs, bytes = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local header = owner .. '\t' .. ARGV[at] .. '\t' .. since .. '\n'
  while jobs > 0 and bytes > 0 do
    local job = pop()
    if not job then return reserved end
    local name = string.format('%.0f', number)
    redis.call('HSET', KEYS[3 * queue - 1], owner .. ':' .. name, header .. job)
    for _, part in ipairs({worker, queue, name, job}) do reserved[#reserved + 1] = part end
    number, jobs, bytes = number + 1, jobs - 1, bytes - #job
  end
end
return reserved
