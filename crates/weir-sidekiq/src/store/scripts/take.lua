-- Reserves jobs by a plan: each step names a queue and one of its ends.
-- KEYS: as in fetch.lua.
-- ARGV: as in fetch.lua; then for each queue its concurrency ('' for none); then the steps: a queue
-- (from 1) and 'oldest' or 'newest'.
-- Returns the same as fetch.lua.
local owner, number, workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local queues = math.floor(#KEYS / 3)
local leases, reserving = KEYS[3 * queues + 1], KEYS[3 * queues + 2]
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', leases, owner)
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
local since = ARGV[1]
if since == '' then since = time[1] .. string.format('%06d', time[2]) end

local names = 4 + 3 * workers
local limits = names + queues
local step = limits + queues + 1
local reserved = {since}

-- As in fetch.lua: no job leaves a list unless it can be reserved.
local function pop(queue, from)
  if redis.pcall('HGET', KEYS[3 * queue], 'paused') == '1' then return nil end
  local length = redis.pcall('HLEN', KEYS[3 * queue - 1])
  if type(length) ~= 'number' then return nil end
  local most = tonumber(ARGV[limits + queue])
  if most and length >= most then return nil end
  if reserving and length == 0 and redis.pcall('EXISTS', KEYS[3 * queue - 2]) == 1 then
    redis.pcall('SADD', reserving, ARGV[names + queue])
  end
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
      for _, part in ipairs({worker, queue, name, job}) do reserved[#reserved + 1] = part end
      number, jobs, bytes = number + 1, jobs - 1, bytes - #job
    end
  end
end
return reserved
