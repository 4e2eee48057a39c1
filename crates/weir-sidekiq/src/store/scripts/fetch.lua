-- Reserves jobs for several workers that ask for the same queues, in the order of these queues.
-- KEYS: for each queue its list, its reservations and its control hash.
-- ARGV: time in microseconds ('' for Redis' clock), owner, first number, count of workers, and for
-- each worker its id, the maximum of jobs and of bytes.
-- Returns the time, and for each job: worker, queue (both from 1), number, payload.
local since = ARGV[1]
if since == '' then
  local time = redis.call('TIME')
  since = time[1] .. string.format('%06d', time[2])
end
local owner, number = ARGV[2], tonumber(ARGV[3])
local queue, paused = 1, {}
local reserved = {since}

local function is_paused(place)
  if paused[place] == nil then
    paused[place] = redis.pcall('HGET', KEYS[3 * place], 'paused') == '1'
  end
  return paused[place]
end

local function pop()
  while 3 * queue <= #KEYS do
    if not is_paused(queue) then
      -- The key may be of another type. That stops no other queue.
      local job = redis.pcall('RPOP', KEYS[3 * queue - 2])
      if type(job) == 'string' then return job end
    end
    queue = queue + 1
  end
end

for worker = 1, tonumber(ARGV[4]) do
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
