-- The first half of a move to another slot: jobs leave their source, and the move is noted beside it. Follows
-- near.lua.
-- KEYS: source, moves that have not ended, leases.
-- ARGV: 'reserved', 'list' or 'set' (source), owner whose lease must be over ('' for any), owner whose
-- lease must be alive ('' for any), what is noted of the target; for a list the positions between which the
-- jobs were read, how many entries to read at once and a mark that it does not have; then for each job the id
-- of its move, its id (if it is reserved) or its text, and its new text ('' for the stored one).
-- Returns for each job 1, 0 if it was not there any more, or 2 as move.lua. Returns nothing if a lease is not
-- as it must be.
local function is_alive(owner)
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], owner)
  return lease and tonumber(lease) > time[1] + time[2] / 1000000
end
if ARGV[2] ~= '' and is_alive(ARGV[2]) then return {} end
if ARGV[3] ~= '' and not is_alive(ARGV[3]) then return {} end

local left = {}
-- A write that needs no memory: after it, Redis does not reject the others when it is full.
redis.pcall('HDEL', KEYS[2], '')
-- No job leaves before its move is noted.
local function note(id, text)
  redis.call('HSET', KEYS[2], id, ARGV[4] .. '\n' .. text)
end

if ARGV[1] == 'list' then
  local jobs = {}
  for place = 9, #ARGV, 3 do jobs[#jobs + 1] = ARGV[place + 1] end
  local places, is_complete =
    locate(KEYS[1], jobs, tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
  for number, job in ipairs(jobs) do
    local id, text = ARGV[6 + 3 * number], ARGV[8 + 3 * number]
    left[number] = places[number] and 1 or (is_complete and 0 or 2)
    if places[number] then note(id, text == '' and job or text) end
  end
  cut(KEYS[1], places, ARGV[8])
  return left
end

local remove = ARGV[1] == 'set' and 'ZREM' or 'HDEL'
for place = 5, #ARGV, 3 do
  local id, job, text = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  if text == '' and ARGV[1] == 'reserved' then
    local value = redis.call('HGET', KEYS[1], job) or ''
    text = string.sub(value, (string.find(value, '\n', 1, true) or 0) + 1)
  end
  note(id, text)
  local done = redis.call(remove, KEYS[1], job)
  if done == 0 then redis.call('HDEL', KEYS[2], id) end
  left[#left + 1] = done
end
return left
