-- The first half of a move to another slot: jobs leave their source, and the move is noted beside it.
-- KEYS: source, moves that have not ended, leases.
-- ARGV: 'reserved', 'list' or 'set' (source), owner whose lease must be over ('' for any), owner whose
-- lease must be alive ('' for any), what is noted of the target; then for each job the id of its move, its
-- id (if it is reserved) or its text, and its new text ('' for the stored one).
-- Returns for each job 1, or 0 if it was not there any more. Returns nothing if a lease is not as it must
-- be.
local function is_alive(owner)
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], owner)
  return lease and tonumber(lease) > time[1] + time[2] / 1000000
end
if ARGV[2] ~= '' and is_alive(ARGV[2]) then return {} end
if ARGV[3] ~= '' and not is_alive(ARGV[3]) then return {} end

local function remove(job)
  if ARGV[1] == 'list' then return redis.call('LREM', KEYS[1], -1, job) end
  if ARGV[1] == 'set' then return redis.call('ZREM', KEYS[1], job) end
  return redis.call('HDEL', KEYS[1], job)
end

local left = {}
for place = 5, #ARGV, 3 do
  local id, job, text = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  if text == '' and ARGV[1] == 'reserved' then
    local value = redis.call('HGET', KEYS[1], job) or ''
    text = string.sub(value, (string.find(value, '\n', 1, true) or 0) + 1)
  end
  -- The job does not leave before its move is noted.
  redis.call('HSET', KEYS[2], id, ARGV[4] .. '\n' .. text)
  local done = remove(job)
  if done == 0 then redis.call('HDEL', KEYS[2], id) end
  left[#left + 1] = done
end
return left
